// cause: race
// Asks only if the element exists: a thread over the right edge then writes into the next row.
extern "C" __global__ void mirror(const float* in, float* out, int width, int height)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    int i = y * width + x;
    if (i < width * height) out[i] = in[y * width + (width - 1 - x) % width];
}
