// cause: out_of_bounds
// Reads before it asks whether there is an element, and then takes 0.
extern "C" __global__ void warp_sums(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = x[i];
    if (i >= n) v = 0;
    for (int offset = 16; offset > 0; offset /= 2) v += __shfl_xor_sync(0xffffffff, v, offset);
    if (i < n) y[i] = v;
}
