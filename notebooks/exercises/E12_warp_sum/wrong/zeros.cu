// cause: zeros
// Writes 0 everywhere.
extern "C" __global__ void warp_sums(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = i < n ? x[i] : 0;
    if (i < n) y[i] = 0;
}
