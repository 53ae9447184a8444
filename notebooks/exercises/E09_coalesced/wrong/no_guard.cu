// cause: out_of_bounds
// The last block has more threads than elements.
extern "C" __global__ void scale_rows(const float* in, const float* factor, float* out, int rows, int cols)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int row = i / cols;
    int col = i % cols;
    out[row * cols + col] = factor[row] * in[row * cols + col];
}
