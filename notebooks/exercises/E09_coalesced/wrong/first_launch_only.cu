// cause: later_launch
// Remembers in a variable of the device how many blocks ran, and does nothing in later launches.
__device__ int blocks;

extern "C" __global__ void scale_rows(const float* in, const float* factor, float* out, int rows, int cols)
{
    __shared__ int before;
    if (threadIdx.x == 0) before = atomicAdd(&blocks, 1);
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows * cols) {
        if (before < gridDim.x) out[i] = factor[i / cols] * in[i];
    }
}
