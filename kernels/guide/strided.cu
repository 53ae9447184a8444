// Idea: neighbouring threads read words that lie far apart, as when each thread walks along a row of a table.
// Formula: y[i] = 2 x[i]; f32[n].
// Since the last rung: nothing; this is the slow half of a pair.
// Needs: n a multiple of 32 x stride; 16-byte aligned arrays.
// Expect: a warp's load asks for up to 32 lines where one would do; the load unit fetches them one after another.

// A group of 32 x stride threads processes 32 x stride words: lane l of the group's warp w takes word l x stride + w.
extern "C" __global__ void __launch_bounds__(THREADS)
scale(const float* __restrict__ x /* [n] */, float* __restrict__ y /* [n] */, unsigned n, unsigned stride) {
    const unsigned t = blockIdx.x * THREADS + threadIdx.x;
    if (t >= n) return;
    const unsigned group = 32 * stride, within = t % group;
    const unsigned i = t - within + within % 32 * stride + within / 32;
    y[i] = 2 * x[i];
}
