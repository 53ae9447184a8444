// cause: column_for_row
// The factor of the column.
extern "C" __global__ void scale_rows(const float* in, const float* factor, float* out, int rows, int cols)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows * cols) {
        int row = i / cols;
        int col = i % cols;
        out[row * cols + col] = factor[col % rows] * in[row * cols + col];
    }
}
