// One array, with two barriers in each step but the last.
extern "C" __global__ void scan(const int* x, int* y, int n)
{
    __shared__ int sums[256];
    int t = threadIdx.x, i = blockIdx.x * 256 + t, v = i < n ? x[i] : 0;
    sums[t] = v;
    for (int step = 1; step < 256; step *= 2) {
        __syncthreads();
        int left = t < step ? 0 : sums[t - step];
        if (step < 128) __syncthreads();
        v += left;
        if (step < 128) sums[t] = v;
    }
    if (i < n) y[i] = v;
}
