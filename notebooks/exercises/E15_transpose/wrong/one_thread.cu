// cause: one_thread
// Right, without a tile: a request of one thread is a single sector, and there are 32 times as many of them.
extern "C" __global__ void transpose(const float* in, float* out, int rows, int cols)
{
    if (threadIdx.x > 0 || threadIdx.y > 0) return;
    int first_row = blockIdx.y * 32, first_col = blockIdx.x * 32;
    for (int row = first_row; row < first_row + 32 && row < rows; ++row) {
        for (int col = first_col; col < first_col + 32 && col < cols; ++col) {
            out[col * rows + row] = in[row * cols + col];
        }
    }
}
