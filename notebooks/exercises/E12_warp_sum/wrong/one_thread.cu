// cause: one_thread
// Right, but lane 0 reads, adds and writes for all lanes of its warp.
extern "C" __global__ void warp_sums(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x % 32 == 0) {
        float sum = 0;
        for (int j = i; j < i + 32 && j < n; ++j) sum += x[j];
        for (int j = i; j < i + 32 && j < n; ++j) y[j] = sum;
    }
}
