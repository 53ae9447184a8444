// cause: offsets_not_halved
// Takes away 2 where it should divide by 2.
extern "C" __global__ void warp_sums(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = i < n ? x[i] : 0;
    for (int offset = 16; offset > 0; offset -= 2) {
        v += __shfl_xor_sync(0xffffffff, v, offset);
    }
    if (i < n) y[i] = v;
}
