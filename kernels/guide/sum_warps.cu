// Idea: a warp adds up its 32 elements with shuffles, and one lane adds the result to the sum.
// Formula: y[0] += x[0] + .. + x[n - 1]; f32, exact if the numbers are small integers.
// Since the last rung: only 1/32 as many atomic additions.
// Needs: y[0] = 0 at launch.
// Expect: still bound by the atomic additions if n is large.
extern "C" __global__ void __launch_bounds__(THREADS)
sum(const float* __restrict__ x /* [n] */, float* __restrict__ y /* [1] */, unsigned n, unsigned) {
    const unsigned i = blockIdx.x * THREADS + threadIdx.x;
    float v = i < n ? x[i] : 0;
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2) v += __shfl_down_sync(0xffffffff, v, lanes);
    if (threadIdx.x % 32 == 0) atomicAdd(y, v);
}
