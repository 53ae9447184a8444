// cause: read_seven_times
// Right, with a tile, but each thread fills all seven places that it needs.
extern "C" __global__ void smooth(const float* x, float* y, int n)
{
    __shared__ float tile[7][256];
    int t = threadIdx.x;
    int i = blockIdx.x * 256 + t;
    for (int j = 0; j < 7; ++j) {
        int at = i + j - 3;
        tile[j][t] = at >= 0 && at < n ? x[at] : 0;
    }
    __syncthreads();
    if (i < n) {
        float sum = 0;
        for (int j = 0; j < 7; ++j) sum += tile[j][t];
        y[i] = sum / 7;
    }
}
