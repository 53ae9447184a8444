// Idea: the device generates its data itself, from the index of each element.
// Formula: y[i] = (h(i) >> 40) / 2^23 - 1, h(i) = i 0x9e3779b97f4a7c15 mod 2^64; f32[n].
// Since the last rung: nothing is generated on the host, and nothing is copied.
// Needs: nothing.
// Expect: the time it takes to write y.
extern "C" __global__ void __launch_bounds__(THREADS)
make(const float* __restrict__, float* __restrict__ y /* [n] */, unsigned n, unsigned) {
    const unsigned i = blockIdx.x * THREADS + threadIdx.x;
    if (i < n) y[i] = (float)(unsigned)(i * 0x9e3779b97f4a7c15ull >> 40) / 8388608.0f - 1.0f;
}
