// cause: race
// Rows of `height` elements overlap, or leave gaps.
extern "C" __global__ void mirror(const float* in, float* out, int width, int height)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < width && y < height) out[y * height + x] = in[y * width + (width - 1 - x)];
}
