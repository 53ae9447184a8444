// cause: no_block_index
// All blocks take the numbers of the first one.
extern "C" __global__ void split(const float* points, float* out, int n)
{
    int t = threadIdx.x;
    if (t < 3 * n) out[t % 3 * n + t / 3] = points[t];
}
