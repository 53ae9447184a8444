// cause: nothing_written
// Computes the number and forgets to write.
extern "C" __global__ void invert(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
}
