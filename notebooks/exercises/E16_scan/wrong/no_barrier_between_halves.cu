// cause: race
// Two arrays, but no barrier between the steps: the other warps may be a step behind.
extern "C" __global__ void scan(const int* x, int* y, int n)
{
    __shared__ int sums[2][256];
    int t = threadIdx.x;
    int i = blockIdx.x * 256 + t;
    sums[0][t] = i < n ? x[i] : 0;
    __syncthreads();
    int now = 0;
    for (int step = 1; step < 256; step *= 2) {
        int v = sums[now][t];
        if (t >= step) v += sums[now][t - step];
        sums[1 - now][t] = v;
        now = 1 - now;
    }
    if (i < n) y[i] = sums[now][t];
}
