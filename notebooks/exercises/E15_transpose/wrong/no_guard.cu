// cause: out_of_bounds
// Blocks at the edges have more threads than there are elements.
extern "C" __global__ void transpose(const float* in, float* out, int rows, int cols)
{
    int col = blockIdx.x * 32 + threadIdx.x;
    int row = blockIdx.y * 32 + threadIdx.y;
    out[col * rows + row] = in[row * cols + col];
}
