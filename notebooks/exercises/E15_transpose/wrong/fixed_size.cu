// cause: fixed_size
// Knows only 64 rows.
extern "C" __global__ void transpose(const float* in, float* out, int rows, int cols)
{
    int col = blockIdx.x * 32 + threadIdx.x;
    int row = blockIdx.y * 32 + threadIdx.y;
    if (rows == 64 && row < rows && col < cols) out[col * rows + row] = in[row * cols + col];
}
