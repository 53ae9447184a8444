// cause: race
// With one array and one barrier a step, a thread overwrites what its neighbour still has to read.
extern "C" __global__ void scan(const int* x, int* y, int n)
{
    __shared__ int sums[256];
    int t = threadIdx.x;
    int i = blockIdx.x * 256 + t;
    sums[t] = i < n ? x[i] : 0;
    __syncthreads();
    for (int step = 1; step < 256; step *= 2) {
        if (t >= step) sums[t] += sums[t - step];
        __syncthreads();
    }
    if (i < n) y[i] = sums[t];
}
