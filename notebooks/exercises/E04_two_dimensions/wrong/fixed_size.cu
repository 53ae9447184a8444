// cause: fixed_size
// Never writes more than 33 columns.
extern "C" __global__ void mirror(const float* in, float* out, int width, int height)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < 33 && x < width && y < height) out[y * width + x] = in[y * width + (width - 1 - x)];
}
