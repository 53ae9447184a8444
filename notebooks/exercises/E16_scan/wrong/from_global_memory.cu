// cause: read_many_times
// Right, but each thread reads all elements on its left from global memory.
extern "C" __global__ void scan(const int* x, int* y, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    int sum = 0;
    for (int j = blockIdx.x * 256; j <= i && j < n; ++j) sum += x[j];
    if (i < n) y[i] = sum;
}
