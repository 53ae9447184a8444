// cause: other_row
// Forgets the row: all rows of c are the first one.
extern "C" __global__ void matmul(const float* a, const float* b, float* c, int m, int n, int k)
{
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < m && col < n) {
        float sum = 0;
        for (int i = 0; i < k; ++i) sum += a[i] * b[i * n + col];
        c[row * n + col] = sum;
    }
}
