extern "C" __global__ void differences(const float* x, float* y, int n)
{
    __shared__ float part[128]; // one array for each block
    int t = threadIdx.x;
    int i = blockIdx.x * blockDim.x + t;
    // TODO: there is one bug in these lines. Who waits at the barrier, and for whom?
    if (i >= n) return;
    part[t] = x[i];
    __syncthreads();
    y[i] = t > 0 ? part[t] - part[t - 1] : 0;
}
