// cause: out_of_bounds
// The condition is the wrong way round.
extern "C" __global__ void squares(const float* x, float* y, int n)
{
    int i = threadIdx.x;
    if (i >= n) y[i] = x[i] * x[i];
}
