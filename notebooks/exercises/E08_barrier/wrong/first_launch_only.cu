// cause: later_launch
// Remembers in a variable of the device how many blocks ran, and does nothing in later launches.
__device__ int blocks;

extern "C" __global__ void differences(const float* x, float* y, int n)
{
    __shared__ int before;
    __shared__ float part[128];
    int t = threadIdx.x;
    int i = blockIdx.x * blockDim.x + t;
    if (t == 0) before = atomicAdd(&blocks, 1);
    if (i < n) part[t] = x[i];
    __syncthreads();
    if (i < n && before < gridDim.x) y[i] = t > 0 ? part[t] - part[t - 1] : 0;
}
