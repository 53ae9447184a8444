// cause: wrong_divisor
// Exchanged the roles, but still divides by the number of rows.
extern "C" __global__ void scale_rows(const float* in, const float* factor, float* out, int rows, int cols)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows * cols) {
        int row = i / rows;
        int col = i % rows;
        if (row < rows && col < cols) out[row * cols + col] = factor[row] * in[row * cols + col];
    }
}
