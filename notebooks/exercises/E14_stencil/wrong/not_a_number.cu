// cause: nan
// Divides zero by zero.
extern "C" __global__ void smooth(const float* x, float* y, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) y[i] = (x[i] - x[i]) / (x[i] - x[i]);
}
