// cause: grid_for_block
// The number of blocks instead of the number of threads in a block.
extern "C" __global__ void invert(const float* x, float* y, int n)
{
    int i = blockIdx.x * gridDim.x + threadIdx.x;
    if (i < n) y[i] = 1 - x[i];
}
