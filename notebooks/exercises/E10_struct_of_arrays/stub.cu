extern "C" __global__ void split(const float* points, float* out, int n)
{
    int p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p < n) {
        // TODO: this is right, but neighbouring threads read numbers that lie 12 bytes apart. They should read neighbours.
        out[p] = points[3 * p];
        out[n + p] = points[3 * p + 1];
        out[2 * n + p] = points[3 * p + 2];
    }
}
