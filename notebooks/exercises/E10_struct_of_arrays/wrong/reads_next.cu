// cause: out_of_bounds
// Reads one number too many, which makes no difference.
extern "C" __global__ void split(const float* points, float* out, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < 3 * n) out[t % 3 * n + t / 3] = points[t + 1] == 7 ? 7 : points[t];
}
