// cause: global_reads
// Right, but without tiles: two reads of global memory for each multiply-add.
extern "C" __global__ void matmul(const float* a, const float* b, float* c, int m, int n, int k)
{
    int col = blockIdx.x * 32 + threadIdx.x;
    for (int s = 0; s < 4; ++s) {
        int row = blockIdx.y * 32 + threadIdx.y + 8 * s;
        if (row < m && col < n) {
            float sum = 0;
            for (int i = 0; i < k; ++i) sum += a[row * k + i] * b[i * n + col];
            c[row * n + col] = sum;
        }
    }
}
