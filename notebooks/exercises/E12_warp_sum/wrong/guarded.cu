// cause: unwritten
// The last warp has lanes without an element. They never arrive at the shuffle, and the others ask them for their values.
extern "C" __global__ void warp_sums(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float v = x[i];
        for (int offset = 16; offset > 0; offset /= 2) v += __shfl_xor_sync(0xffffffff, v, offset);
        y[i] = v;
    }
}
