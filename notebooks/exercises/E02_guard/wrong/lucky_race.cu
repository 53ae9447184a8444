// cause: race
// Each element is written by two threads. On most GPUs the right value comes last.
extern "C" __global__ void squares(const float* x, float* y, int n)
{
    int i = threadIdx.x;
    if (i < n) {
        y[n - 1 - i] = 7;
        y[i] = x[i] * x[i];
    }
}
