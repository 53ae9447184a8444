// cause: other_halo
// The halo on the left is in the wrong order.
extern "C" __global__ void smooth(const float* x, float* y, int n)
{
    __shared__ float tile[256 + 6];
    int t = threadIdx.x;
    int i = blockIdx.x * 256 + t;
    tile[t + 3] = i < n ? x[i] : 0;
    if (t < 3) {
        int left = blockIdx.x * 256 - 1 - t, right = i + 256;
        tile[t] = left >= 0 ? x[left] : 0;
        tile[t + 259] = right < n ? x[right] : 0;
    }
    __syncthreads();
    if (i < n) {
        float sum = 0;
        for (int j = 0; j < 7; ++j) sum += tile[t + j];
        y[i] = sum / 7;
    }
}
