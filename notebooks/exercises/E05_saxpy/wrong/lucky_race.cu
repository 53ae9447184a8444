// cause: race
// A thread also touches the element of another. On most GPUs the right value comes last.
extern "C" __global__ void saxpy(const float* x, float* y, float a, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float v = a * x[i] + y[i];
        y[n - 1 - i] = 7;
        y[i] = v;
    }
}
