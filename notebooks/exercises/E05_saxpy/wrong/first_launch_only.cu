// cause: later_launch
// Remembers in a variable of the device how many blocks ran, and does nothing in later launches.
__device__ int blocks;

extern "C" __global__ void saxpy(const float* x, float* y, float a, int n)
{
    __shared__ int before;
    if (threadIdx.x == 0) before = atomicAdd(&blocks, 1);
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (before < gridDim.x && i < n) y[i] = a * x[i] + y[i];
}
