// cause: one_thread
// Right, with tiles that all threads fill, but then the first lane of each warp computes the sums of all 32 columns.
extern "C" __global__ void matmul(const float* a, const float* b, float* c, int m, int n, int k)
{
    __shared__ float a_tile[32][32], b_tile[32][32], sums[32][32];
    int x = threadIdx.x, y = threadIdx.y;
    int col = blockIdx.x * 32 + x, first = blockIdx.y * 32;
    for (int r = y; r < 32; r += 8) sums[r][x] = 0;
    for (int begin = 0; begin < k; begin += 32) {
        for (int r = y; r < 32; r += 8) {
            a_tile[r][x] = first + r < m && begin + x < k ? a[(first + r) * k + begin + x] : 0;
            b_tile[r][x] = begin + r < k && col < n ? b[(begin + r) * n + col] : 0;
        }
        __syncthreads();
        if (x == 0) {
            for (int j = 0; j < 32; j += 2) { // two columns in four rows
                float even[4] = {0, 0, 0, 0}, odd[4] = {0, 0, 0, 0};
                for (int i = 0; i < 32; ++i) {
                    float right = b_tile[i][j], next = b_tile[i][j + 1];
                    for (int s = 0; s < 4; ++s) {
                        float left = a_tile[y + 8 * s][i];
                        even[s] += left * right;
                        odd[s] += left * next;
                    }
                }
                for (int s = 0; s < 4; ++s) {
                    sums[y + 8 * s][j] += even[s];
                    sums[y + 8 * s][j + 1] += odd[s];
                }
            }
        }
        __syncthreads();
    }
    for (int r = y; r < 32; r += 8) {
        if (first + r < m && col < n) c[(first + r) * n + col] = sums[r][x];
    }
}
