// Idea: a thread moves two words with one load and one store.
// Formula: y[i] = 2 x[i]; f32[n].
// Since the last rung: half as many threads, loads and stores; twice the bytes in flight per thread.
// Needs: 8-byte aligned arrays, n a multiple of 2.
// Expect: a time between the times of loads_4.cu and loads_16.cu.
extern "C" __global__ void __launch_bounds__(THREADS)
scale(const float2* __restrict__ x /* [n / 2] */, float2* __restrict__ y /* [n / 2] */, unsigned n, unsigned) {
    const unsigned i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= n / 2) return;
    const float2 v = x[i];
    y[i] = make_float2(2 * v.x, 2 * v.y);
}
