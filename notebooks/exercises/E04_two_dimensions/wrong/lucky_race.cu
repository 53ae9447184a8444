// cause: race
// Each pixel is also written by the thread of its mirror image. On most GPUs the right value comes last.
extern "C" __global__ void mirror(const float* in, float* out, int width, int height)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < width && y < height) {
        out[y * width + (width - 1 - x)] = 7;
        out[y * width + x] = in[y * width + (width - 1 - x)];
    }
}
