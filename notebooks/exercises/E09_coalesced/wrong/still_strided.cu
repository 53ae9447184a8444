// cause: strided
// The kernel of the task: right, and 32 sectors for a request.
extern "C" __global__ void scale_rows(const float* in, const float* factor, float* out, int rows, int cols)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows * cols) {
        int row = i % rows;
        int col = i / rows;
        out[row * cols + col] = factor[row] * in[row * cols + col];
    }
}
