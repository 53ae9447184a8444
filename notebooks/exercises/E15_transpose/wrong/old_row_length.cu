// cause: old_row_length
// A row of `out` has `rows` elements, not `cols`.
extern "C" __global__ void transpose(const float* in, float* out, int rows, int cols)
{
    int col = blockIdx.x * 32 + threadIdx.x;
    int row = blockIdx.y * 32 + threadIdx.y;
    if (row < rows && col < cols) out[(col * cols + row) % (rows * cols)] = in[row * cols + col];
}
