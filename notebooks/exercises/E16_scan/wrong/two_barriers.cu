// cause: too_many_barriers
// Right, with one array and two barriers a step: 17 with the first.
extern "C" __global__ void scan(const int* x, int* y, int n)
{
    __shared__ int sums[256];
    int t = threadIdx.x;
    int i = blockIdx.x * 256 + t;
    sums[t] = i < n ? x[i] : 0;
    __syncthreads();
    for (int step = 1; step < 256; step *= 2) {
        int v = t >= step ? sums[t - step] : 0;
        __syncthreads();
        sums[t] += v;
        __syncthreads();
    }
    if (i < n) y[i] = sums[t];
}
