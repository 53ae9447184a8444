// cause: out_of_bounds
// Reads a row that does not exist, and does not use it.
extern "C" __global__ void matmul(const float* a, const float* b, float* c, int m, int n, int k)
{
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    float first = a[row * k] * b[col];
    if (row < m && col < n) {
        float sum = first;
        for (int i = 1; i < k; ++i) sum += a[row * k + i] * b[i * n + col];
        c[row * n + col] = sum;
    }
}
