// cause: nan
// Divides zero by zero.
extern "C" __global__ void split(const float* points, float* out, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < 3 * n) {
        float v = points[t];
        out[t % 3 * n + t / 3] = (v - v) / (v - v);
    }
}
