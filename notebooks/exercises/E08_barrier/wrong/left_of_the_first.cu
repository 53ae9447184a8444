// cause: out_of_bounds
// The first thread of a block has no neighbour in the shared array.
extern "C" __global__ void differences(const float* x, float* y, int n)
{
    __shared__ float part[128];
    int t = threadIdx.x;
    int i = blockIdx.x * blockDim.x + t;
    if (i < n) part[t] = x[i];
    __syncthreads();
    if (i < n) y[i] = part[t] - part[t - 1];
}
