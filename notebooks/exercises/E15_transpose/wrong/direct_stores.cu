// cause: strided
// Right, but now the reads lie a row apart instead of the writes.
extern "C" __global__ void transpose(const float* in, float* out, int rows, int cols)
{
    int row = blockIdx.y * 32 + threadIdx.x;
    int col = blockIdx.x * 32 + threadIdx.y;
    if (row < rows && col < cols) out[col * rows + row] = in[row * cols + col];
}
