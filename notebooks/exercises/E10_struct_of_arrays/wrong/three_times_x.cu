// cause: only_the_x
// Forgets to go on to y and z.
extern "C" __global__ void split(const float* points, float* out, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < n) {
        for (int c = 0; c < 3; ++c) out[c * n + t] = points[3 * t];
    }
}
