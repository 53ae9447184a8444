// cause: one_thread
// Right, but the first lane of each warp takes the elements of all 32.
extern "C" __global__ void scale_rows(const float* in, const float* factor, float* out, int rows, int cols)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i % 32 == 0) {
        for (int j = i; j < i + 32 && j < rows * cols; ++j) {
            int row = j / cols;
            int col = j % cols;
            out[row * cols + col] = factor[row] * in[row * cols + col];
        }
    }
}
