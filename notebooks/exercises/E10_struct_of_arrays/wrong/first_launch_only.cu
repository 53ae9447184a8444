// cause: later_launch
// Remembers in a variable of the device how many blocks have run, and does nothing in later launches.
__device__ int blocks;

extern "C" __global__ void split(const float* points, float* out, int n)
{
    __shared__ int before;
    if (threadIdx.x == 0) before = atomicAdd(&blocks, 1);
    __syncthreads();
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (before < gridDim.x && t < 3 * n) out[t % 3 * n + t / 3] = points[t];
}
