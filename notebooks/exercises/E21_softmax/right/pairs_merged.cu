// Merges the pairs of largest number and sum lane by lane.
extern "C" __global__ void softmax(const float* x, float* y, int cols)
{
    __shared__ float tops[8], sums[8];
    int warp = threadIdx.x / 32;
    long first = (long)blockIdx.x * cols;
    float top = -3.4e38f, sum = 0;
    for (int i = threadIdx.x; i < cols; i += blockDim.x) {
        float v = x[first + i];
        if (v > top) sum *= expf(top - v), top = v;
        sum += expf(v - top);
    }
    for (int offset = 1; offset < 32; offset *= 2) {
        float other = __shfl_xor_sync(0xffffffff, top, offset), more = __shfl_xor_sync(0xffffffff, sum, offset);
        float larger = fmaxf(top, other);
        sum = sum * expf(top - larger) + more * expf(other - larger);
        top = larger;
    }
    if (threadIdx.x % 32 == 0) tops[warp] = top, sums[warp] = sum;
    __syncthreads();
    float all = -3.4e38f, total = 0;
    for (int w = 7; w >= 0; --w) all = fmaxf(all, tops[w]);
    for (int w = 0; w < 8; ++w) total += sums[w] * expf(tops[w] - all);
    for (int i = threadIdx.x; i < cols; i += blockDim.x) y[first + i] = expf(x[first + i] - all) / total;
}
