// cause: later_launch
// Remembers in a variable of the device that it ran before, and does nothing then.
__device__ int done;

extern "C" __global__ void squares(const float* x, float* y, int n)
{
    int before = done;
    __syncthreads();
    int i = threadIdx.x;
    if (before == 0 && i < n) y[i] = x[i] * x[i];
    if (i == 0) done = 1;
}
