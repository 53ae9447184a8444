// cause: race
// The kernel of the task.
extern "C" __global__ void histogram(const int* kind, int* count, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) count[kind[i]] += 1;
}
