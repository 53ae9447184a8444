// cause: a_row_length
// Takes the length of a row of C for that of a row of A.
extern "C" __global__ void matmul(const float* a, const float* b, float* c, int m, int n, int k)
{
    __shared__ float a_tile[32][32], b_tile[32][32];
    int x = threadIdx.x, y = threadIdx.y;
    int col = blockIdx.x * 32 + x, first = blockIdx.y * 32;
    float sums[4] = {0, 0, 0, 0};
    for (int begin = 0; begin < k; begin += 32) {
        for (int r = y; r < 32; r += 8) {
            a_tile[r][x] = first + r < m && begin + x < k ? a[(first + r) * n + begin + x] : 0;
            b_tile[r][x] = begin + r < k && col < n ? b[(begin + r) * n + col] : 0;
        }
        __syncthreads();
        for (int i = 0; i < 32; ++i) {
            float right = b_tile[i][x];
            for (int s = 0; s < 4; ++s) sums[s] += a_tile[y + 8 * s][i] * right;
        }
        __syncthreads();
    }
    for (int s = 0; s < 4; ++s) {
        int row = first + y + 8 * s;
        if (row < m && col < n) c[row * n + col] = sums[s];
    }
}
