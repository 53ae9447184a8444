// cause: out_of_bounds
// The remainder is the coordinate, and the quotient is the point; here it is the other way round.
extern "C" __global__ void split(const float* points, float* out, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < 3 * n) {
        int p = t % 3;
        int c = t / 3;
        out[c * n + p] = points[t];
    }
}
