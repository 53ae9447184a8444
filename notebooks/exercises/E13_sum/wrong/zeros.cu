// cause: zeros
// Writes 0 everywhere.
extern "C" __global__ void partial_sums(const float* x, float* partial, int n)
{
    if (threadIdx.x == 0) partial[blockIdx.x] = 0;
}
