// cause: copy
// Writes the first elements.
extern "C" __global__ void partial_sums(const float* x, float* partial, int n)
{
    if (threadIdx.x == 0) partial[blockIdx.x] = x[blockIdx.x];
}
