extern "C" __global__ void warp_sums(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = i < n ? x[i] : 0; // threads without an element take part, too: with 0
    // TODO: add up the v of all lanes of the warp, so that every lane has the sum.
    if (i < n) y[i] = v;
}
