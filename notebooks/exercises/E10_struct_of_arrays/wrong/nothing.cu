// cause: nothing_written
// Computes point and coordinate, and nothing else.
extern "C" __global__ void split(const float* points, float* out, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    int p = t / 3;
    int c = t % 3;
}
