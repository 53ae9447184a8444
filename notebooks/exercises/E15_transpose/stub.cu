extern "C" __global__ void transpose(const float* in, float* out, int rows, int cols)
{
    int col = blockIdx.x * 32 + threadIdx.x;
    int row = blockIdx.y * 32 + threadIdx.y;
    // TODO: this is right, but the threads of a warp write elements that lie a whole row apart. Go through a tile in shared memory.
    if (row < rows && col < cols) out[col * rows + row] = in[row * cols + col];
}
