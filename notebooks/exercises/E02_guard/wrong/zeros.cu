// cause: zeros
// Writes 0 everywhere.
extern "C" __global__ void squares(const float* x, float* y, int n)
{
    int i = threadIdx.x;
    if (i < n) y[i] = 0;
}
