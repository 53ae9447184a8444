// cause: strided
// Right, but without a tile: the writes of a warp lie a row apart.
extern "C" __global__ void transpose(const float* in, float* out, int rows, int cols)
{
    int col = blockIdx.x * 32 + threadIdx.x;
    int row = blockIdx.y * 32 + threadIdx.y;
    if (row < rows && col < cols) out[col * rows + row] = in[row * cols + col];
}
