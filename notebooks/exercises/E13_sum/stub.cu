extern "C" __global__ void partial_sums(const float* x, float* partial, int n)
{
    __shared__ float sums[32];                             // one place for each warp; a block has at most 32 of them
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;  // this thread's place in its warp, and the warp's in its block
    float v = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) v += x[i];
    // TODO: add up the v of each warp by shuffles, keep one sum for each warp in sums, and let one warp add those.
    if (threadIdx.x == 0) partial[blockIdx.x] = v;
}
