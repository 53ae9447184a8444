// cause: one_thread
// Right, but one thread does all the work.
extern "C" __global__ void scan(const int* x, int* y, int n)
{
    __shared__ int sums[256];
    int t = threadIdx.x;
    int i = blockIdx.x * 256 + t;
    sums[t] = i < n ? x[i] : 0;
    __syncthreads();
    if (t == 0) {
        for (int j = 1; j < 256; ++j) sums[j] += sums[j - 1];
    }
    __syncthreads();
    if (i < n) y[i] = sums[t];
}
