// cause: out_of_bounds
// Reads one element too far, and does not use it.
extern "C" __global__ void histogram(const int* kind, int* count, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int last = kind[n];
    if (i < n) atomicAdd(&count[kind[i]], last == 1 << 30 ? 2 : 1);
}
