// cause: copy
// Copies `a`.
extern "C" __global__ void matmul(const float* a, const float* b, float* c, int m, int n, int k)
{
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < m && col < n) c[row * n + col] = a[(row * n + col) % (m * k)];
}
