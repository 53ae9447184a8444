// cause: offset_missing
// One exchange adds two numbers.
extern "C" __global__ void warp_sums(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = i < n ? x[i] : 0;
    v += __shfl_xor_sync(0xffffffff, v, 16);
    if (i < n) y[i] = v;
}
