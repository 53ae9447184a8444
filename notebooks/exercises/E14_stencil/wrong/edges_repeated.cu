// cause: edges_repeated
// Repeats the first and the last element beyond the edges, instead of 0.
extern "C" __global__ void smooth(const float* x, float* y, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) {
        float sum = 0;
        for (int j = i - 3; j <= i + 3; ++j) sum += x[min(max(j, 0), n - 1)];
        y[i] = sum / 7;
    }
}
