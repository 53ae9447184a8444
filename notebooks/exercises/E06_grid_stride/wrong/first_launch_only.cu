// cause: later_launch
// Remembers in a variable of the device how many blocks ran, and does nothing in later launches.
__device__ int blocks;

extern "C" __global__ void scale(float* x, float a, int n)
{
    __shared__ int before;
    if (threadIdx.x == 0) before = atomicAdd(&blocks, 1);
    __syncthreads();
    if (before >= gridDim.x) return;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        x[i] = a * x[i];
    }
}
