// cause: by_columns
// Takes the matrix for one that lies in memory column by column: coalesced, but with the wrong factors.
extern "C" __global__ void scale_rows(const float* in, const float* factor, float* out, int rows, int cols)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows * cols) {
        int row = i % rows;
        int col = i / rows;
        out[col * rows + row] = factor[row] * in[col * rows + row];
    }
}
