// cause: out_of_bounds
// Reads before it asks.
extern "C" __global__ void mirror(const float* in, float* out, int width, int height)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    float v = in[y * width + (width - 1 - x)];
    if (x < width && y < height) out[y * width + x] = v;
    else if (v == 7) out[0] = in[width - 1];
}
