// cause: copied_kinds
// Copies the first kinds.
extern "C" __global__ void histogram(const int* kind, int* count, int n)
{
    int i = threadIdx.x;
    if (blockIdx.x == 0 && i < 16 && i < n) count[i] = kind[i];
}
