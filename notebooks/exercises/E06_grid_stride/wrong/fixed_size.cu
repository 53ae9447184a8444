// cause: fixed_size
// Two turns of the loop, which is enough for 1 and 700 elements.
extern "C" __global__ void scale(float* x, float a, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = a * x[i];
    if (i + 1024 < n) x[i + 1024] = a * x[i + 1024];
}
