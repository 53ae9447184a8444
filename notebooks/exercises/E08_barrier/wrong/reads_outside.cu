// cause: out_of_bounds
// Reads beyond the end of the array; nobody uses the value.
extern "C" __global__ void differences(const float* x, float* y, int n)
{
    __shared__ float part[128];
    int t = threadIdx.x;
    int i = blockIdx.x * blockDim.x + t;
    part[t] = x[i];
    __syncthreads();
    if (i < n) y[i] = t > 0 ? part[t] - part[t - 1] : 0;
}
