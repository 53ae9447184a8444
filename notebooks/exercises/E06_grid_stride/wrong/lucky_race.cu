// cause: race
// A thread also touches the element of another. On most GPUs the right value comes last.
extern "C" __global__ void scale(float* x, float a, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        float v = a * x[i];
        if (i % 2 == 0 && i + 1 < n) x[i + 1] = 7;
        x[i] = v;
    }
}
