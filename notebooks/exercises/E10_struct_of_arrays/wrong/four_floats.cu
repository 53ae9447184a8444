// cause: out_of_bounds
// Takes four floats a point, as one pads structs for wide loads, but these points are not padded.
extern "C" __global__ void split(const float* points, float* out, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < 3 * n) out[t % 3 * n + t / 3] = points[t / 3 * 4 + t % 3];
}
