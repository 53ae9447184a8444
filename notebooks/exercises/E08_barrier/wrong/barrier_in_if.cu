// cause: barrier
// The barrier is inside of the condition.
extern "C" __global__ void differences(const float* x, float* y, int n)
{
    __shared__ float part[128];
    int t = threadIdx.x;
    int i = blockIdx.x * blockDim.x + t;
    if (i < n) {
        part[t] = x[i];
        __syncthreads();
        y[i] = t > 0 ? part[t] - part[t - 1] : 0;
    }
}
