// cause: out_of_bounds
// The last block has more threads than there are numbers.
extern "C" __global__ void split(const float* points, float* out, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    out[t % 3 * n + t / 3] = points[t];
}
