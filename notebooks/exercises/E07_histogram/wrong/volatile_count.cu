// cause: lost_updates
// `volatile` makes each read and each write happen in memory. They are still two steps.
extern "C" __global__ void histogram(const int* kind, int* count, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    volatile int* counts = count;
    if (i < n) counts[kind[i]] = counts[kind[i]] + 1;
}
