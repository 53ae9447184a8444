// cause: nothing_written
// Fills the shared array and forgets the result.
extern "C" __global__ void differences(const float* x, float* y, int n)
{
    __shared__ float part[128];
    int t = threadIdx.x;
    int i = blockIdx.x * blockDim.x + t;
    if (i < n) part[t] = x[i];
    __syncthreads();
}
