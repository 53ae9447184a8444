// cause: unwritten
// Makes room for a halo and does not fill it.
extern "C" __global__ void smooth(const float* x, float* y, int n)
{
    __shared__ float tile[256 + 6];
    int t = threadIdx.x;
    int i = blockIdx.x * 256 + t;
    tile[t + 3] = i < n ? x[i] : 0;
    __syncthreads();
    if (i < n) {
        float sum = 0;
        for (int j = 0; j < 7; ++j) sum += tile[t + j];
        y[i] = sum / 7;
    }
}
