// Turns rows of the tile instead of padding them.
extern "C" __global__ void transpose(const float* in, float* out, int rows, int cols)
{
    __shared__ float tile[32][32];
    int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 32, col = blockIdx.x * 32;
    if (row + y < rows && col + x < cols) tile[y][x ^ y] = in[(row + y) * cols + col + x];
    __syncthreads();
    if (col + y < cols && row + x < rows) out[(col + y) * rows + row + x] = tile[x][y ^ x];
}
