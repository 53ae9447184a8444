// cause: out_of_bounds
// Without a loop and without a guard.
extern "C" __global__ void scale(float* x, float a, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i] = a * x[i];
}
