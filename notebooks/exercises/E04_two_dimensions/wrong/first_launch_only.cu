// cause: later_launch
// Remembers in a variable of the device how many blocks ran, and does nothing in later launches.
__device__ int blocks;

extern "C" __global__ void mirror(const float* in, float* out, int width, int height)
{
    __shared__ int before;
    if (threadIdx.x == 0 && threadIdx.y == 0) before = atomicAdd(&blocks, 1);
    __syncthreads();
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (before >= gridDim.x * gridDim.y) return;
    if (x < width && y < height) out[y * width + x] = in[y * width + (width - 1 - x)];
}
