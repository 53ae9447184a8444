// cause: out_of_bounds
// `<=` lets one thread too many through.
extern "C" __global__ void squares(const float* x, float* y, int n)
{
    int i = threadIdx.x;
    if (i <= n) y[i] = x[i] * x[i];
}
