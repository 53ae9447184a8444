// cause: last_missing
// The last element is n - 1, and it has a square, too.
extern "C" __global__ void squares(const float* x, float* y, int n)
{
    int i = threadIdx.x;
    if (i < n - 1) y[i] = x[i] * x[i];
}
