// cause: race
// A barrier orders the threads before it and after it, not those between two barriers.
extern "C" __global__ void histogram(const int* kind, int* count, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    __syncthreads();
    if (i < n) count[kind[i]] += 1;
    __syncthreads();
}
