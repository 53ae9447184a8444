// cause: zeros
// Writes 0 everywhere.
extern "C" __global__ void scan(const int* x, int* y, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) y[i] = 0;
}
