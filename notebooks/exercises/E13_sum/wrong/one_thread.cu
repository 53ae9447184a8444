// cause: one_thread
// Right, but thread 0 of each block adds the elements of all its threads.
extern "C" __global__ void partial_sums(const float* x, float* partial, int n)
{
    if (threadIdx.x > 0) return;
    int threads = blockDim.x, step = gridDim.x * threads;
    float sum = 0;
    for (int first = blockIdx.x * threads; first < n; first += step) {
        for (int i = first; i < first + threads && i < n; ++i) sum += x[i];
    }
    partial[blockIdx.x] = sum;
}
