// cause: endless
// The loop never moves on.
extern "C" __global__ void scale(float* x, float a, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n;) {
        x[i] = a * x[i];
    }
}
