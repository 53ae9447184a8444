// cause: read_32_times
// Right, but each lane reads the elements of all lanes.
extern "C" __global__ void warp_sums(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int first = i / 32 * 32;
    float sum = 0;
    for (int j = first; j < first + 32 && j < n; ++j) sum += x[j];
    if (i < n) y[i] = sum;
}
