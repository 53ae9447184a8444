// cause: barrier
// Shuffles inside of the loop: in the last round some lanes have no element and do not arrive.
extern "C" __global__ void partial_sums(const float* x, float* partial, int n)
{
    __shared__ float sums[32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float v = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        float one = x[i];
        for (int offset = 16; offset > 0; offset /= 2) one += __shfl_xor_sync(0xffffffff, one, offset);
        v += one;
    }
    if (lane == 0) sums[warp] = v;
    __syncthreads();
    if (warp == 0) {
        v = lane < blockDim.x / 32 ? sums[lane] : 0;
        for (int offset = 16; offset > 0; offset /= 2) v += __shfl_xor_sync(0xffffffff, v, offset);
        if (lane == 0) partial[blockIdx.x] = v;
    }
}
