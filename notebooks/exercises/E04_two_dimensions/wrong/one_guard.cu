// cause: out_of_bounds
// Asks only whether the element exists: threads over the right edge then work in the next row.
extern "C" __global__ void mirror(const float* in, float* out, int width, int height)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    int i = y * width + x;
    if (i < width * height) out[i] = in[y * width + (width - 1 - x)];
}
