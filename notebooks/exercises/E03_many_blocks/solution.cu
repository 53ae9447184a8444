extern "C" __global__ void invert(const float* x, float* y, int n)
{
    // All threads of the blocks before this one, and then this thread's number in its own block.
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { // the last block may have more threads than there are elements left
        y[i] = 1 - x[i];
    }
}
