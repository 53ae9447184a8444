// cause: race
// Each warp writes its own sum to the same place, and the last one stays.
extern "C" __global__ void partial_sums(const float* x, float* partial, int n)
{
    float v = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) v += x[i];
    for (int offset = 16; offset > 0; offset /= 2) v += __shfl_xor_sync(0xffffffff, v, offset);
    if (threadIdx.x % 32 == 0) partial[blockIdx.x] = v;
}
