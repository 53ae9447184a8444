// cause: fixed_size
// Does nothing unless n is 1000.
extern "C" __global__ void invert(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (n == 1000 && i < n) y[i] = 1 - x[i];
}
