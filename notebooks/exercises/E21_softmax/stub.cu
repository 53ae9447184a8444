extern "C" __global__ void softmax(const float* x, float* y, int cols)
{
    __shared__ float largest[8], sums[8]; // one place for each of the 8 warps
    const float* row = x + blockIdx.x * cols; // x + k is the address of x[k]
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;

    // The largest number: of this thread, of its warp, of the block.
    float top = -3.4e38f;
    for (int i = threadIdx.x; i < cols; i += 256) top = fmaxf(top, row[i]);
    float all = top;
    for (int offset = 16; offset > 0; offset /= 2) all = fmaxf(all, __shfl_xor_sync(0xffffffff, all, offset));
    if (lane == 0) largest[warp] = all;
    __syncthreads();
    for (int w = 0; w < 8; ++w) all = fmaxf(all, largest[w]);

    // The sum of powers: of this thread, of its warp, of the block.
    // TODO: this loop reads the row a second time. Compute the sum in the loop above, relative to the largest number so far.
    float sum = 0;
    for (int i = threadIdx.x; i < cols; i += 256) sum += expf(row[i] - all);
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffff, sum, offset);
    if (lane == 0) sums[warp] = sum;
    __syncthreads();
    float total = 0;
    for (int w = 0; w < 8; ++w) total += sums[w];

    for (int i = threadIdx.x; i < cols; i += 256) y[blockIdx.x * cols + i] = expf(row[i] - all) / total;
}
