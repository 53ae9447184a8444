extern "C" __global__ void matmul(const float* a, const float* b, float* c, int m, int n, int k)
{
    __shared__ float a_tile[32][32], b_tile[32][32];
    int x = threadIdx.x, y = threadIdx.y;
    int col = blockIdx.x * 32 + x, first = blockIdx.y * 32; // this thread's column of c, and the block's first row
    float sums[4] = {0, 0, 0, 0};                           // of rows y, y + 8, y + 16 and y + 24
    for (int begin = 0; begin < k; begin += 32) {
        for (int r = y; r < 32; r += 8) { // a warp reads 32 neighbours; 0 beyond the edges
            a_tile[r][x] = first + r < m && begin + x < k ? a[(first + r) * k + begin + x] : 0;
            b_tile[r][x] = begin + r < k && col < n ? b[(begin + r) * n + col] : 0;
        }
        __syncthreads(); // both tiles are full
        for (int i = 0; i < 32; ++i) {
            float right = b_tile[i][x]; // read once for four sums
            for (int s = 0; s < 4; ++s) sums[s] += a_tile[y + 8 * s][i] * right;
        }
        __syncthreads(); // nobody needs these tiles any more
    }
    for (int s = 0; s < 4; ++s) {
        int row = first + y + 8 * s;
        if (row < m && col < n) c[row * n + col] = sums[s];
    }
}
