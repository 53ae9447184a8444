// cause: no_halo
// The tile has only the elements of its own block, as if 0 stood on both sides of it.
extern "C" __global__ void smooth(const float* x, float* y, int n)
{
    __shared__ float tile[256];
    int t = threadIdx.x;
    int i = blockIdx.x * 256 + t;
    tile[t] = i < n ? x[i] : 0;
    __syncthreads();
    if (i < n) {
        float sum = 0;
        for (int j = t - 3; j <= t + 3; ++j) {
            if (j >= 0 && j < 256) sum += tile[j];
        }
        y[i] = sum / 7;
    }
}
