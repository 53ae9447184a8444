// cause: zeros
// Writes 0 everywhere.
extern "C" __global__ void split(const float* points, float* out, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < 3 * n) out[t] = 0;
}
