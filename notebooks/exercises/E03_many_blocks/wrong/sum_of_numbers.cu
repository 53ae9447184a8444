// cause: added_numbers
// Adds the two numbers.
extern "C" __global__ void invert(const float* x, float* y, int n)
{
    int i = blockIdx.x + threadIdx.x;
    if (i < n) y[i] = 1 - x[i];
}
