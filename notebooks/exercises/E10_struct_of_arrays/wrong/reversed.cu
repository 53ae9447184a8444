// cause: x_and_z_exchanged
// Begins with the z.
extern "C" __global__ void split(const float* points, float* out, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < 3 * n) {
        int p = t / 3;
        int c = 2 - t % 3;
        out[c * n + p] = points[t];
    }
}
