// cause: fixed_size
// Never computes more than 1000 elements.
extern "C" __global__ void saxpy(const float* x, float* y, float a, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < 1000 && i < n) y[i] = a * x[i] + y[i];
}
