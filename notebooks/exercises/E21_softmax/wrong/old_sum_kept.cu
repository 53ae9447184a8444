// cause: old_sum_kept
// The sum so far stays as it is when a larger number comes.
extern "C" __global__ void softmax(const float* x, float* y, int cols)
{
    __shared__ float largest[8], sums[8];
    const float* row = x + blockIdx.x * cols;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;

    float top = -3.4e38f, sum = 0;
    for (int i = threadIdx.x; i < cols; i += 256) {
        float v = row[i];
        top = fmaxf(top, v);
        sum += expf(v - top);
    }

    float all = top;
    for (int offset = 16; offset > 0; offset /= 2) all = fmaxf(all, __shfl_xor_sync(0xffffffff, all, offset));
    if (lane == 0) largest[warp] = all;
    __syncthreads();
    for (int w = 0; w < 8; ++w) all = fmaxf(all, largest[w]);

    sum *= expf(top - all);
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffff, sum, offset);
    if (lane == 0) sums[warp] = sum;
    __syncthreads();
    float total = 0;
    for (int w = 0; w < 8; ++w) total += sums[w];

    for (int i = threadIdx.x; i < cols; i += 256) y[blockIdx.x * cols + i] = expf(row[i] - all) / total;
}
