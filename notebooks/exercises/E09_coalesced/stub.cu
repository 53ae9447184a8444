extern "C" __global__ void scale_rows(const float* in, const float* factor, float* out, int rows, int cols)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows * cols) {
        // TODO: this is right, but thread 1 is one row below thread 0. It should be one column to the right.
        int row = i % rows;
        int col = i / rows;
        out[row * cols + col] = factor[row] * in[row * cols + col];
    }
}
