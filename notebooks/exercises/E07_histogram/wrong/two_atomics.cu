// cause: lost_updates
// Reads in one step and writes in another: each is atomic, both together are not.
extern "C" __global__ void histogram(const int* kind, int* count, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        int old = atomicAdd(&count[kind[i]], 0);
        atomicExch(&count[kind[i]], old + 1);
    }
}
