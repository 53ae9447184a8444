// cause: block_not_exchanged
// Turns each tile, but writes it to the place that it came from.
extern "C" __global__ void transpose(const float* in, float* out, int rows, int cols)
{
    __shared__ float tile[32][33];
    int col = blockIdx.x * 32 + threadIdx.x;
    int row = blockIdx.y * 32 + threadIdx.y;
    if (row < rows && col < cols) tile[threadIdx.y][threadIdx.x] = in[row * cols + col];
    __syncthreads();
    if (row < cols && col < rows) out[row * rows + col] = tile[threadIdx.x][threadIdx.y];
}
