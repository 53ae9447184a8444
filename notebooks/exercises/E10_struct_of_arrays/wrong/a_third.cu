// cause: some_not_written
// One thread for each number, but the guard still counts points.
extern "C" __global__ void split(const float* points, float* out, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < n) {
        int p = t / 3;
        int c = t % 3;
        out[c * n + p] = points[t];
    }
}
