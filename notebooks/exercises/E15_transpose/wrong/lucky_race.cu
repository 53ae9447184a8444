// cause: race
// Another thread also writes the element. On most GPUs the right value comes last.
extern "C" __global__ void transpose(const float* in, float* out, int rows, int cols)
{
    int col = blockIdx.x * 32 + threadIdx.x;
    int row = blockIdx.y * 32 + threadIdx.y;
    if (row < rows && col < cols) {
        out[rows * cols - 1 - (col * rows + row)] = 7;
        out[col * rows + row] = in[row * cols + col];
    }
}
