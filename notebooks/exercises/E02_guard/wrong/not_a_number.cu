// cause: nan
// The root of a negative number is not a number.
extern "C" __global__ void squares(const float* x, float* y, int n)
{
    int i = threadIdx.x;
    if (i < n) y[i] = sqrtf(-1 - x[i] * x[i]);
}
