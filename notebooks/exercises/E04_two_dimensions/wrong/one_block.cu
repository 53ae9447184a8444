// cause: no_block_index
// Only the first block's pixels.
extern "C" __global__ void mirror(const float* in, float* out, int width, int height)
{
    int x = threadIdx.x;
    int y = threadIdx.y;
    if (x < width && y < height) out[y * width + x] = in[y * width + (width - 1 - x)];
}
