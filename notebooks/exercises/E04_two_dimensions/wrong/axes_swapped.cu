// cause: axes_swapped
// Columns from .y and rows from .x.
extern "C" __global__ void mirror(const float* in, float* out, int width, int height)
{
    int x = blockIdx.y * blockDim.y + threadIdx.y;
    int y = blockIdx.x * blockDim.x + threadIdx.x;
    if (x < width && y < height) out[y * width + x] = in[y * width + (width - 1 - x)];
}
