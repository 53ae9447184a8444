// cause: nan
// The root of a negative number is not a number.
extern "C" __global__ void scale(float* x, float a, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        x[i] = sqrtf(-1 - x[i] * x[i]);
    }
}
