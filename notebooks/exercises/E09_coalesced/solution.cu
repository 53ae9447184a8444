extern "C" __global__ void scale_rows(const float* in, const float* factor, float* out, int rows, int cols)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows * cols) {
        int row = i / cols; // the same in most threads of a warp
        int col = i % cols; // one more from each thread to the next: neighbours in memory
        out[row * cols + col] = factor[row] * in[row * cols + col];
    }
}
