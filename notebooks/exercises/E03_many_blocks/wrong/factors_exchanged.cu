// cause: factors_exchanged
// Multiplies the thread's number instead of the block's.
extern "C" __global__ void invert(const float* x, float* y, int n)
{
    int i = threadIdx.x * blockDim.x + blockIdx.x;
    if (i < n) y[i] = 1 - x[i];
}
