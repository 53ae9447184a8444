// cause: no_loop
// One element for each thread, however many elements there are.
extern "C" __global__ void partial_sums(const float* x, float* partial, int n)
{
    __shared__ float sums[32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = i < n ? x[i] : 0;
    for (int offset = 16; offset > 0; offset /= 2) v += __shfl_xor_sync(0xffffffff, v, offset);
    if (lane == 0) sums[warp] = v;
    __syncthreads();
    if (warp == 0) {
        v = lane < blockDim.x / 32 ? sums[lane] : 0;
        for (int offset = 16; offset > 0; offset /= 2) v += __shfl_xor_sync(0xffffffff, v, offset);
        if (lane == 0) partial[blockIdx.x] = v;
    }
}
