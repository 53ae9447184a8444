// cause: later_launch
// Remembers in a variable of the device how many blocks have run, and does nothing in later launches.
__device__ int blocks;

extern "C" __global__ void warp_sums(const float* x, float* y, int n)
{
    __shared__ int before;
    if (threadIdx.x == 0) before = atomicAdd(&blocks, 1);
    __syncthreads();
    if (before >= gridDim.x) return;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = i < n ? x[i] : 0;
    for (int offset = 16; offset > 0; offset /= 2) v += __shfl_xor_sync(0xffffffff, v, offset);
    if (i < n) y[i] = v;
}
