// cause: one_thread
// Right, and each element is read once, but thread 0 does all the work of its block.
extern "C" __global__ void smooth(const float* x, float* y, int n)
{
    __shared__ float tile[256 + 6];
    int first = blockIdx.x * 256;
    if (threadIdx.x == 0) {
        for (int j = 0; j < 256 + 6; ++j) {
            int at = first + j - 3;
            tile[j] = at >= 0 && at < n ? x[at] : 0;
        }
        for (int t = 0; t < 256 && first + t < n; ++t) {
            float sum = 0;
            for (int j = 0; j < 7; ++j) sum += tile[t + j];
            y[first + t] = sum / 7;
        }
    }
}
