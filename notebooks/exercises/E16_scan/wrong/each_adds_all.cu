// cause: quadratic
// Right, but each thread adds up everything on its left.
extern "C" __global__ void scan(const int* x, int* y, int n)
{
    __shared__ int sums[256];
    int t = threadIdx.x;
    int i = blockIdx.x * 256 + t;
    sums[t] = i < n ? x[i] : 0;
    __syncthreads();
    int sum = 0;
    for (int j = 0; j <= t; ++j) sum += sums[j];
    if (i < n) y[i] = sum;
}
