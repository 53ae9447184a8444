// cause: out_of_bounds
// Reads before it asks.
extern "C" __global__ void saxpy(const float* x, float* y, float a, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = a * x[i];
    if (i < n) y[i] = v + y[i];
    else if (v == 7) y[0] = 7;
}
