// cause: race
// Another thread also writes the element. On most GPUs the right value comes last.
extern "C" __global__ void split(const float* points, float* out, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < 3 * n) {
        int c = t % 3;
        out[(2 - c) * n + t / 3] = 7;
        out[c * n + t / 3] = points[t];
    }
}
