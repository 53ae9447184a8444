// cause: zeros
// Writes 0 into all counts.
extern "C" __global__ void histogram(const int* kind, int* count, int n)
{
    if (blockIdx.x == 0 && threadIdx.x < 16) count[threadIdx.x] = 0;
}
