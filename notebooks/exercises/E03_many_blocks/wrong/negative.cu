// cause: negated
// Forgot the 1.
extern "C" __global__ void invert(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = -x[i];
}
