// cause: first_of_each_step
// Leaves out the thread whose neighbour is thread 0.
extern "C" __global__ void scan(const int* x, int* y, int n)
{
    __shared__ int sums[2][256];
    int t = threadIdx.x;
    int i = blockIdx.x * 256 + t;
    sums[0][t] = i < n ? x[i] : 0;
    int now = 0;
    for (int step = 1; step < 256; step *= 2) {
        __syncthreads();
        int v = sums[now][t];
        if (t > step) v += sums[now][t - step];
        sums[1 - now][t] = v;
        now = 1 - now;
    }
    if (i < n) y[i] = sums[now][t];
}
