extern "C" __global__ void transpose(const float* in, float* out, int rows, int cols)
{
    __shared__ float tile[32][33]; // one float more in each row: column c of row r lies in bank (r + c) % 32
    int col = blockIdx.x * 32 + threadIdx.x;
    int row = blockIdx.y * 32 + threadIdx.y;
    if (row < rows && col < cols) tile[threadIdx.y][threadIdx.x] = in[row * cols + col];
    __syncthreads();
    int out_col = blockIdx.y * 32 + threadIdx.x; // the block's place is exchanged, but threadIdx.x still runs along a row
    int out_row = blockIdx.x * 32 + threadIdx.y;
    if (out_row < cols && out_col < rows) out[out_row * rows + out_col] = tile[threadIdx.x][threadIdx.y];
}
