// cause: out_of_bounds
// Reads before the guard; the value is not used for anything that is wrong.
extern "C" __global__ void invert(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = 1 - x[i];
    if (i < n) y[i] = v;
    else if (v == 7) y[0] = 1 - x[0];
}
