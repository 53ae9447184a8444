// cause: race
// A thread also clears the place of its right neighbour before the barrier. In most orders the right value comes last.
extern "C" __global__ void differences(const float* x, float* y, int n)
{
    __shared__ float part[128];
    int t = threadIdx.x;
    int i = blockIdx.x * blockDim.x + t;
    if (t < 127) part[t + 1] = 0;
    if (i < n) part[t] = x[i];
    __syncthreads();
    if (i < n) y[i] = t > 0 ? part[t] - part[t - 1] : 0;
}
