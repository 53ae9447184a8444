// cause: barrier
// Only threads with a neighbour so far to the left reach the barrier.
extern "C" __global__ void scan(const int* x, int* y, int n)
{
    __shared__ int sums[256];
    int t = threadIdx.x;
    int i = blockIdx.x * 256 + t;
    sums[t] = i < n ? x[i] : 0;
    __syncthreads();
    for (int step = 1; step < 256; step *= 2) {
        if (t >= step) {
            int v = sums[t - step];
            __syncthreads();
            sums[t] += v;
        }
        __syncthreads();
    }
    if (i < n) y[i] = sums[t];
}
