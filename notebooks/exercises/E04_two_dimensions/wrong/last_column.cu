// cause: out_of_bounds
// Column 0 gets column `width`, which is the first of the next row; after the last row there is none.
extern "C" __global__ void mirror(const float* in, float* out, int width, int height)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < width && y < height) out[y * width + x] = in[y * width + (width - x)];
}
