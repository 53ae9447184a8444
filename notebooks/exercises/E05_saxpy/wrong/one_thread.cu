// cause: one_thread
// Right, but one thread of the whole grid computes everything.
extern "C" __global__ void saxpy(const float* x, float* y, float a, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i == 0) {
        for (int j = 0; j < n; ++j) y[j] = a * x[j] + y[j];
    }
}
