// cause: race
// A thread also clears the element of another. On most GPUs the right value comes last.
extern "C" __global__ void invert(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[n - 1 - i] = 7;
        y[i] = 1 - x[i];
    }
}
