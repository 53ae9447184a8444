// cause: race
// All blocks begin with the same elements.
extern "C" __global__ void scale(float* x, float a, int n)
{
    for (int i = threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        x[i] = a * x[i];
    }
}
