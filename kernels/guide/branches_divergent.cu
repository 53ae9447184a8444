// Idea: elements are of several kinds, each with its own path through the code, and neighbours differ in kind.
// Formula: y[i] = 64 steps of v = a(k) v + b(k) from x[i], k = i mod kinds; f32[n].
// Since the last rung: nothing; this is the slow half of a pair.
// Needs: n a multiple of 32 x kinds, kinds from 1 to 32.
// Expect: a warp walks every path that one of its lanes takes, with the other lanes switched off: K kinds take K times as long.
extern "C" __global__ void __launch_bounds__(THREADS)
branch(const float* __restrict__ x /* [n] */, float* __restrict__ y /* [n] */, unsigned n, unsigned kinds) {
    const unsigned i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
#pragma unroll 1
    for (unsigned kind = 0; kind < kinds; ++kind) {
        if (i % kinds != kind) continue;
        const float a = 0.99f - 0.001f * kind, b = 0.01f * kind;
#pragma unroll 16
        for (int step = 0; step < 64; ++step) v = fmaf(a, v, b);
    }
    y[i] = v;
}
