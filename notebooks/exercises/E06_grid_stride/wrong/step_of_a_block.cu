// cause: race
// Steps over the threads of its own block and forgets the other blocks.
extern "C" __global__ void scale(float* x, float a, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x) {
        x[i] = a * x[i];
    }
}
