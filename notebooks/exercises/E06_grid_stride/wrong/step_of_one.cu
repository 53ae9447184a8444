// cause: race
// Goes on with the next element, which belongs to another thread.
extern "C" __global__ void scale(float* x, float a, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += 1) {
        x[i] = a * x[i];
    }
}
