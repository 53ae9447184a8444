// cause: race
// Steps by the number of blocks.
extern "C" __global__ void scale(float* x, float a, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x) {
        x[i] = a * x[i];
    }
}
