// cause: last_missing
// Skips the last element, n - 1; it needs squaring.
extern "C" __global__ void squares(const float* x, float* y, int n)
{
    int i = threadIdx.x;
    if (i < n - 1) y[i] = x[i] * x[i];
}
