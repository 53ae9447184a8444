// cause: nan
// Divides zero by zero.
extern "C" __global__ void transpose(const float* in, float* out, int rows, int cols)
{
    int col = blockIdx.x * 32 + threadIdx.x;
    int row = blockIdx.y * 32 + threadIdx.y;
    if (row < rows && col < cols) {
        float v = in[row * cols + col];
        out[col * rows + row] = (v - v) / (v - v);
    }
}
