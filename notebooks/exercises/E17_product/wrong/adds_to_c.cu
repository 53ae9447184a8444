// cause: unwritten
// Adds to what `c` held before the launch, and nobody has written that.
extern "C" __global__ void matmul(const float* a, const float* b, float* c, int m, int n, int k)
{
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < m && col < n) {
        for (int i = 0; i < k; ++i) c[row * n + col] += a[row * k + i] * b[i * n + col];
    }
}
