// cause: through_shared_memory
// Right, but by shared memory: each lane reads all 32 elements.
extern "C" __global__ void warp_sums(const float* x, float* y, int n)
{
    __shared__ float part[128];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    part[threadIdx.x] = i < n ? x[i] : 0;
    __syncthreads();
    int first = threadIdx.x / 32 * 32;
    float sum = 0;
    for (int lane = 0; lane < 32; ++lane) sum += part[first + lane];
    if (i < n) y[i] = sum;
}
