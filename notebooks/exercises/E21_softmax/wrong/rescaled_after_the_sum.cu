// cause: wrong_sum
// Adds the sums of lanes, which are relative to their own largest numbers, and rescales the sum of the warp.
extern "C" __global__ void softmax(const float* x, float* y, int cols)
{
    __shared__ float largest[8], sums[8];
    const float* row = x + blockIdx.x * cols;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;

    float top = -3.4e38f, sum = 0;
    for (int i = threadIdx.x; i < cols; i += 256) {
        float v = row[i];
        if (v > top) {
            sum = sum * expf(top - v) + 1;
            top = v;
        } else {
            sum += expf(v - top);
        }
    }

    float all = top;
    for (int offset = 16; offset > 0; offset /= 2) all = fmaxf(all, __shfl_xor_sync(0xffffffff, all, offset));
    if (lane == 0) largest[warp] = all;
    __syncthreads();
    for (int w = 0; w < 8; ++w) all = fmaxf(all, largest[w]);

    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffff, sum, offset);
    if (lane == 0) sums[warp] = sum;
    __syncthreads();
    float total = 0;
    for (int w = 0; w < 8; ++w) total += sums[w] * expf(largest[w] - all);

    for (int i = threadIdx.x; i < cols; i += 256) y[blockIdx.x * cols + i] = expf(row[i] - all) / total;
}
