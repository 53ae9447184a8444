extern "C" __global__ void mirror(const float* in, float* out, int width, int height)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x; // column
    int y = blockIdx.y * blockDim.y + threadIdx.y; // row
    if (x < width && y < height) { // blocks reach over both edges
        // Row y begins at element y * width. The last column of a row is width - 1.
        out[y * width + x] = in[y * width + (width - 1 - x)];
    }
}
