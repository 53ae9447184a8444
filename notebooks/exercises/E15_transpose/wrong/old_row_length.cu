// cause: race
// A row of `out` has `rows` elements, not `cols`: with another length, two elements get the same place.
extern "C" __global__ void transpose(const float* in, float* out, int rows, int cols)
{
    int col = blockIdx.x * 32 + threadIdx.x;
    int row = blockIdx.y * 32 + threadIdx.y;
    if (row < rows && col < cols) out[col * cols + row] = in[row * cols + col];
}
