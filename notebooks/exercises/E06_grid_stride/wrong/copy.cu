// cause: copy
// Writes what it has read.
extern "C" __global__ void scale(float* x, float a, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        volatile float v = x[i];
        x[i] = v;
    }
}
