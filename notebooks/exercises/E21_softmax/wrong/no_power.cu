// cause: no_power
// Divides the numbers themselves by their sum.
extern "C" __global__ void softmax(const float* x, float* y, int cols)
{
    __shared__ float sums[8];
    const float* row = x + blockIdx.x * cols;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float sum = 0;
    for (int i = threadIdx.x; i < cols; i += 256) sum += row[i];
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffff, sum, offset);
    if (lane == 0) sums[warp] = sum;
    __syncthreads();
    float total = 0;
    for (int w = 0; w < 8; ++w) total += sums[w];
    for (int i = threadIdx.x; i < cols; i += 256) y[blockIdx.x * cols + i] = row[i] / total;
}
