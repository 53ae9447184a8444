// cause: out_of_bounds
// Reads beyond the end in the last block, where nobody uses it.
extern "C" __global__ void smooth(const float* x, float* y, int n)
{
    __shared__ float tile[256 + 6];
    int t = threadIdx.x;
    int i = blockIdx.x * 256 + t;
    tile[t + 3] = i < n ? x[i] : 0;
    if (t < 3) {
        tile[t] = i >= 3 ? x[i - 3] : 0;
        float right = x[i + 256];
        tile[t + 259] = i + 256 < n ? right : 0;
    }
    __syncthreads();
    if (i < n) {
        float sum = 0;
        for (int j = 0; j < 7; ++j) sum += tile[t + j];
        y[i] = sum / 7;
    }
}
