// cause: out_of_bounds
// Reads the element of the next turn before it knows whether there is one.
extern "C" __global__ void scale(float* x, float a, int n)
{
    int threads = gridDim.x * blockDim.x;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float next = x[i];
    while (i < n) {
        float now = next;
        next = x[i + threads];
        x[i] = a * now;
        i += threads;
    }
}
