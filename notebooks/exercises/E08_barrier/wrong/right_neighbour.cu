// cause: unwritten
// The neighbour on the right: after the last element there is none.
extern "C" __global__ void differences(const float* x, float* y, int n)
{
    __shared__ float part[128];
    int t = threadIdx.x;
    int i = blockIdx.x * blockDim.x + t;
    if (i < n) part[t] = x[i];
    __syncthreads();
    if (i < n) y[i] = t < 127 ? part[t + 1] - part[t] : 0;
}
