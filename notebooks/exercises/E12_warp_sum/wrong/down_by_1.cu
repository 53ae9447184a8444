// cause: offsets_not_halved
// Tries every distance from 16 to 1.
extern "C" __global__ void warp_sums(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = i < n ? x[i] : 0;
    for (int offset = 16; offset > 0; --offset) {
        v += __shfl_xor_sync(0xffffffff, v, offset);
    }
    if (i < n) y[i] = v;
}
