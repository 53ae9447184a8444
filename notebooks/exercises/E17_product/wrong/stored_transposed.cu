// cause: c_transposed
// Row and column are exchanged where the sum is written.
extern "C" __global__ void matmul(const float* a, const float* b, float* c, int m, int n, int k)
{
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < m && col < n) {
        float sum = 0;
        for (int i = 0; i < k; ++i) sum += a[row * k + i] * b[i * n + col];
        c[col * m + row] = sum;
    }
}
