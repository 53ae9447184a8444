// cause: out_of_bounds
// Reads before the condition, and does not use it.
extern "C" __global__ void transpose(const float* in, float* out, int rows, int cols)
{
    int col = blockIdx.x * 32 + threadIdx.x;
    int row = blockIdx.y * 32 + threadIdx.y;
    float v = in[row * cols + col];
    if (row < rows && col < cols) out[col * rows + row] = v;
    else if (v == 7) out[0] = in[0];
}
