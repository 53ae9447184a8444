// cause: out_of_bounds
// The number of the element instead of its kind.
extern "C" __global__ void histogram(const int* kind, int* count, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&count[i], 1);
}
