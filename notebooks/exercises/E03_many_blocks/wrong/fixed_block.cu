// cause: fixed_block
// Right as long as a block has 256 threads.
extern "C" __global__ void invert(const float* x, float* y, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) y[i] = 1 - x[i];
}
