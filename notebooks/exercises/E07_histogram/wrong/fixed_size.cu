// cause: fixed_size
// Never counts more than 1000 elements.
extern "C" __global__ void histogram(const int* kind, int* count, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < 1000 && i < n) atomicAdd(&count[kind[i]], 1);
}
