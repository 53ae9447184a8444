// cause: no_block_index
// All blocks take the first tile.
extern "C" __global__ void transpose(const float* in, float* out, int rows, int cols)
{
    int col = threadIdx.x;
    int row = threadIdx.y;
    if (row < rows && col < cols) out[col * rows + row] = in[row * cols + col];
}
