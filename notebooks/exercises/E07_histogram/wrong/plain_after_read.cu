// cause: race
// Reads and writes with an atomic function each, but with a gap between the two.
extern "C" __global__ void histogram(const int* kind, int* count, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        int old = count[kind[i]];
        atomicExch(&count[kind[i]], old + 1);
    }
}
