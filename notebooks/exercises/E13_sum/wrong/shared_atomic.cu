// cause: order_not_fixed
// Each warp adds to one number in shared memory, in the order in which they happen to arrive.
extern "C" __global__ void partial_sums(const float* x, float* partial, int n)
{
    __shared__ float sum;
    if (threadIdx.x == 0) sum = 0;
    __syncthreads();
    float v = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) v += x[i];
    for (int offset = 16; offset > 0; offset /= 2) v += __shfl_xor_sync(0xffffffff, v, offset);
    if (threadIdx.x % 32 == 0) atomicAdd(&sum, v);
    __syncthreads();
    if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}
