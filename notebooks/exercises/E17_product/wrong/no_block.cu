// cause: no_block_index
// All blocks compute the first 16 rows and columns.
extern "C" __global__ void matmul(const float* a, const float* b, float* c, int m, int n, int k)
{
    int row = threadIdx.y;
    int col = threadIdx.x;
    if (row < m && col < n) {
        float sum = 0;
        for (int i = 0; i < k; ++i) sum += a[row * k + i] * b[i * n + col];
        c[row * n + col] = sum;
    }
}
