// Idea: the threads of a warp take elements of one kind, so that the warp walks one path.
// Formula: y[i] = 64 steps of v = a(k) v + b(k) from x[i], k = i mod kinds; f32[n].
// Since the last rung: the assignment of elements to threads; the code of the paths is the same.
// Needs: n a multiple of 32 x kinds, kinds from 1 to 32.
// Expect: the time hardly depends on the number of kinds, until reading words that lie far apart costs more than the arithmetic.

// A group of 32 x kinds threads processes 32 x kinds elements: lane l of the group's warp k takes element l x kinds + k.
extern "C" __global__ void __launch_bounds__(THREADS)
branch(const float* __restrict__ x /* [n] */, float* __restrict__ y /* [n] */, unsigned n, unsigned kinds) {
    const unsigned t = blockIdx.x * THREADS + threadIdx.x;
    if (t >= n) return;
    const unsigned within = t % (32 * kinds);
    const unsigned i = t - within + within % 32 * kinds + within / 32;
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
