// cause: across_blocks
// Without shared memory: the first thread of a block takes the last element of the block before.
extern "C" __global__ void differences(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = i > 0 ? x[i] - x[i - 1] : 0;
}
