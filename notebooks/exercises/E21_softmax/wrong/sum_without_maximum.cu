// cause: maximum_in_one_place
// Adds powers that are not relative to the largest number.
extern "C" __global__ void softmax(const float* x, float* y, int cols)
{
    __shared__ float largest[8], sums[8];
    const float* row = x + blockIdx.x * cols;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float all = -3.4e38f, sum = 0;
    for (int i = threadIdx.x; i < cols; i += 256) {
        all = fmaxf(all, row[i]);
        sum += expf(row[i]);
    }
    for (int offset = 16; offset > 0; offset /= 2) {
        all = fmaxf(all, __shfl_xor_sync(0xffffffff, all, offset));
        sum += __shfl_xor_sync(0xffffffff, sum, offset);
    }
    if (lane == 0) {
        largest[warp] = all;
        sums[warp] = sum;
    }
    __syncthreads();
    float total = 0;
    for (int w = 0; w < 8; ++w) {
        all = fmaxf(all, largest[w]);
        total += sums[w];
    }
    for (int i = threadIdx.x; i < cols; i += 256) y[blockIdx.x * cols + i] = expf(row[i] - all) / total;
}
