extern "C" __global__ void warp_sums(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = i < n ? x[i] : 0; // threads without an element take part, too: with 0
    // Lanes that are 16 apart exchange and add, then those that are 8 apart, and so on: five times, and all 32 have the sum.
    for (int offset = 16; offset > 0; offset /= 2) {
        v += __shfl_xor_sync(0xffffffff, v, offset);
    }
    if (i < n) y[i] = v;
}
