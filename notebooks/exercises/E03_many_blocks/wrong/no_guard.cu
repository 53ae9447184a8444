// cause: out_of_bounds
// The last block has more threads than elements.
extern "C" __global__ void invert(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = 1 - x[i];
}
