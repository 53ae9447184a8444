// The four sums of a thread belong to neighbouring rows.
extern "C" __global__ void matmul(const float* a, const float* b, float* c, int m, int n, int k)
{
    __shared__ float left[32][33], right[32][32];
    int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 32, col = blockIdx.x * 32 + x;
    float sum[4] = {};
    for (int at = 0; at < k; at += 32, __syncthreads()) {
        for (int r = y; r < 32; r += 8) {
            left[r][x] = row + r < m && at + x < k ? a[(row + r) * k + at + x] : 0;
            right[r][x] = at + r < k && col < n ? b[(at + r) * n + col] : 0;
        }
        __syncthreads();
        for (int i = 31; i >= 0; --i)
            for (int s = 0; s < 4; ++s) sum[s] += left[y * 4 + s][i] * right[i][x];
    }
    for (int s = 0; s < 4; ++s)
        if (row + y * 4 + s < m && col < n) c[(row + y * 4 + s) * n + col] = sum[s];
}
