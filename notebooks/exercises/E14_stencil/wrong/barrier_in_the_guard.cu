// cause: barrier
// In the last block only some threads reach the barrier.
extern "C" __global__ void smooth(const float* x, float* y, int n)
{
    __shared__ float tile[256 + 6];
    int t = threadIdx.x;
    int i = blockIdx.x * 256 + t;
    if (i < n) {
        tile[t + 3] = x[i];
        if (t < 3) {
            tile[t] = i >= 3 ? x[i - 3] : 0;
            tile[t + 259] = i + 256 < n ? x[i + 256] : 0;
        }
        if (i + 3 >= n) tile[t + 6] = 0;
        __syncthreads();
        float sum = 0;
        for (int j = 0; j < 7; ++j) sum += tile[t + j];
        y[i] = sum / 7;
    }
}
