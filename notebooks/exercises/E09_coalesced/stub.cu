extern "C" __global__ void scale_rows(const float* in, const float* factor, float* out, int rows, int cols)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows * cols) {
        int row = 0; // TODO: compute row and column from i, so that thread 1 is one column to the right of thread 0.
        int col = 0;
        out[row * cols + col] = factor[row] * in[row * cols + col];
    }
}
