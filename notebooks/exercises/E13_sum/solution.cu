extern "C" __global__ void partial_sums(const float* x, float* partial, int n)
{
    __shared__ float sums[32];                             // one place for each warp; a block has at most 32 of them
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;  // this thread's place in its warp, and the warp's in its block
    float v = 0;
    int i = blockIdx.x * blockDim.x + threadIdx.x, step = gridDim.x * blockDim.x;
    for (; i + 7 * step < n; i += 8 * step) { // eight elements are on their way before the first is added
        float ahead[8];
        for (int k = 0; k < 8; ++k) ahead[k] = x[i + k * step];
        for (int k = 0; k < 8; ++k) v += ahead[k];
    }
    for (; i < n; i += step) v += x[i];
    for (int offset = 16; offset > 0; offset /= 2) v += __shfl_xor_sync(0xffffffff, v, offset);
    if (lane == 0) sums[warp] = v;
    __syncthreads(); // all sums of warps are there
    if (warp == 0) { // a whole warp goes on, so all lanes arrive at the shuffles
        v = lane < blockDim.x / 32 ? sums[lane] : 0;
        for (int offset = 16; offset > 0; offset /= 2) v += __shfl_xor_sync(0xffffffff, v, offset);
        if (lane == 0) partial[blockIdx.x] = v;
    }
}
