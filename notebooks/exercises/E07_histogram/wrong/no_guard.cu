// cause: out_of_bounds
// The last block has more threads than elements.
extern "C" __global__ void histogram(const int* kind, int* count, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(&count[kind[i]], 1);
}
