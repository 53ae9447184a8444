// cause: race
// A flag keeps others out, as long as nobody looks at it at the same time.
__device__ int busy;

extern "C" __global__ void histogram(const int* kind, int* count, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    bool waits = i < n;
    while (waits) {
        if (busy == 0) {
            busy = 1;
            count[kind[i]] += 1;
            busy = 0;
            waits = false;
        }
    }
}
