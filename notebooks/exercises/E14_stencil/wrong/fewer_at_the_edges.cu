// cause: divided_by_fewer
// At the edges divides by the number of elements that exist.
extern "C" __global__ void smooth(const float* x, float* y, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) {
        float sum = 0;
        int count = 0;
        for (int j = max(i - 3, 0); j <= min(i + 3, n - 1); ++j) {
            sum += x[j];
            ++count;
        }
        y[i] = sum / count;
    }
}
