// Warps scan by shuffles, and add the sums of the warps before.
extern "C" __global__ void scan(const int* x, int* y, int n)
{
    __shared__ int sums[8];
    int t = threadIdx.x, i = blockIdx.x * 256 + t, lane = t % 32;
    int v = i < n ? x[i] : 0;
    for (int step = 1; step < 32; step *= 2) {
        int left = __shfl_up_sync(0xffffffff, v, step);
        if (lane >= step) v += left;
    }
    if (lane == 31) sums[t / 32] = v;
    __syncthreads();
    for (int w = 0; w < t / 32; ++w) v += sums[w];
    if (i < n) y[i] = v;
}
