extern "C" __global__ void scale(float* x, float a, int n)
{
    int first = blockIdx.x * blockDim.x + threadIdx.x; // this thread's number in the grid
    int threads = gridDim.x * blockDim.x;              // threads in the whole grid
    for (int i = first; i < n; i += threads) {         // the condition is the guard, too
        x[i] = a * x[i];
    }
}
