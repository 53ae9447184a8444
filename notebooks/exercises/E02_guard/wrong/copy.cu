// cause: copy
// Forgot to square.
extern "C" __global__ void squares(const float* x, float* y, int n)
{
    int i = threadIdx.x;
    if (i < n) y[i] = x[i];
}
