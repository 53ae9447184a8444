// cause: race
// `volatile` makes three steps visible, and not one of them.
extern "C" __global__ void histogram(const int* kind, int* count, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    volatile int* counts = count;
    if (i < n) counts[kind[i]] = counts[kind[i]] + 1;
}
