extern "C" __global__ void scan(const int* x, int* y, int n)
{
    __shared__ int sums[2][256]; // a step reads one of them and writes the other
    int t = threadIdx.x;
    int i = blockIdx.x * 256 + t;
    sums[0][t] = i < n ? x[i] : 0;
    int now = 0; // the one to read
    for (int step = 1; step < 256; step *= 2) {
        __syncthreads(); // the sums of the last step are there, and nobody reads the other array any more
        int v = sums[now][t];
        if (t >= step) v += sums[now][t - step];
        sums[1 - now][t] = v;
        now = 1 - now;
    }
    if (i < n) y[i] = sums[now][t]; // this thread has written it itself
}
