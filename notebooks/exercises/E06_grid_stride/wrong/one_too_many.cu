// cause: out_of_bounds
// `<=` goes one element too far.
extern "C" __global__ void scale(float* x, float a, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i <= n; i += gridDim.x * blockDim.x) {
        x[i] = a * x[i];
    }
}
