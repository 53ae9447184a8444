// cause: endless
// Never goes to the next neighbour.
extern "C" __global__ void smooth(const float* x, float* y, int n)
{
    __shared__ float tile[256 + 6];
    int t = threadIdx.x;
    int i = blockIdx.x * 256 + t;
    tile[t + 3] = i < n ? x[i] : 0;
    if (t < 3) {
        int left = i - 3, right = i + 256;
        tile[t] = left >= 0 ? x[left] : 0;
        tile[t + 259] = right < n ? x[right] : 0;
    }
    __syncthreads();
    if (i < n) {
        float sum = 0;
        int j = 0;
        while (j < 7) {
            sum += tile[t + j];
            y[i] = sum / 7;
        }
    }
}
