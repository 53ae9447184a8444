// cause: unwritten
// Adds to what `partial` held before the launch, and nobody has written that.
extern "C" __global__ void partial_sums(const float* x, float* partial, int n)
{
    float v = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) v += x[i];
    for (int offset = 16; offset > 0; offset /= 2) v += __shfl_xor_sync(0xffffffff, v, offset);
    if (threadIdx.x % 32 == 0) atomicAdd(&partial[blockIdx.x], v);
}
