// cause: out_of_bounds
// Rows are guarded, columns are not: a thread beyond the last column writes into the next row.
extern "C" __global__ void matmul(const float* a, const float* b, float* c, int m, int n, int k)
{
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < m) {
        float sum = 0;
        for (int i = 0; i < k; ++i) sum += a[row * k + i] * b[i * n + col];
        c[row * n + col] = sum;
    }
}
