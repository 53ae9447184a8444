// cause: out_of_bounds
// Guards the right edge and forgets the bottom edge.
extern "C" __global__ void mirror(const float* in, float* out, int width, int height)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < width) out[y * width + x] = in[y * width + (width - 1 - x)];
}
