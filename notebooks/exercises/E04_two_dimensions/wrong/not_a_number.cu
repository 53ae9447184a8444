// cause: nan
// Divides zero by zero.
extern "C" __global__ void mirror(const float* in, float* out, int width, int height)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    float v = in[y * width + x];
    out[y * width + x] = (v - v) / (v - v);
}
