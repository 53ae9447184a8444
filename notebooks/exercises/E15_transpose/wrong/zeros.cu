// cause: zeros
// Writes 0 everywhere.
extern "C" __global__ void transpose(const float* in, float* out, int rows, int cols)
{
    int col = blockIdx.x * 32 + threadIdx.x;
    int row = blockIdx.y * 32 + threadIdx.y;
    if (row < rows && col < cols) out[col * rows + row] = 0;
}
