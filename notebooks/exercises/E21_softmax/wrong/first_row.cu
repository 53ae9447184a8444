// cause: no_block_index
// All blocks work on the first row.
extern "C" __global__ void softmax(const float* x, float* y, int cols)
{
    __shared__ float largest[8], sums[8];
    const float* row = x + 0;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float top = -3.4e38f;
    for (int i = threadIdx.x; i < cols; i += 256) top = fmaxf(top, row[i]);
    float all = top;
    for (int offset = 16; offset > 0; offset /= 2) all = fmaxf(all, __shfl_xor_sync(0xffffffff, all, offset));
    if (lane == 0) largest[warp] = all;
    __syncthreads();
    for (int w = 0; w < 8; ++w) all = fmaxf(all, largest[w]);
    float sum = 0;
    for (int i = threadIdx.x; i < cols; i += 256) sum += expf(row[i] - all);
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffff, sum, offset);
    if (lane == 0) sums[warp] = sum;
    __syncthreads();
    float total = 0;
    for (int w = 0; w < 8; ++w) total += sums[w];
    for (int i = threadIdx.x; i < cols; i += 256) y[0 + i] = expf(row[i] - all) / total;
}
