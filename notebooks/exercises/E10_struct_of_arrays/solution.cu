extern "C" __global__ void split(const float* points, float* out, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < 3 * n) {
        int p = t / 3;                // the point that number t belongs to
        int c = t % 3;                // 0 for an x, 1 for a y, 2 for a z
        out[c * n + p] = points[t];   // neighbouring threads read neighbours
    }
}
