extern "C" __global__ void histogram(const int* kind, int* count, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        // Reads, adds and writes in one step: nobody else gets in between.
        atomicAdd(&count[kind[i]], 1);
    }
}
