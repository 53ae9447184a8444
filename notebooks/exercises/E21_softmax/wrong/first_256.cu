// cause: no_loop
// One element for each thread, however long a row is.
extern "C" __global__ void softmax(const float* x, float* y, int cols)
{
    __shared__ float largest[8], sums[8];
    const float* row = x + blockIdx.x * cols;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float top = -3.4e38f;
    int i = threadIdx.x;
    if (i < cols) top = fmaxf(top, row[i]);
    float all = top;
    for (int offset = 16; offset > 0; offset /= 2) all = fmaxf(all, __shfl_xor_sync(0xffffffff, all, offset));
    if (lane == 0) largest[warp] = all;
    __syncthreads();
    for (int w = 0; w < 8; ++w) all = fmaxf(all, largest[w]);
    float sum = 0;
    if (i < cols) sum += expf(row[i] - all);
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffff, sum, offset);
    if (lane == 0) sums[warp] = sum;
    __syncthreads();
    float total = 0;
    for (int w = 0; w < 8; ++w) total += sums[w];
    if (i < cols) y[blockIdx.x * cols + i] = expf(row[i] - all) / total;
}
