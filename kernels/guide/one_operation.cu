// Idea: each operation on the array is one kernel, as a framework runs an expression that it has not compiled.
// Formula: y[i] = x[i] 0.9 + 0.1, or max(x[i], 0), depending on the operation's number; f32[n].
// Since the last rung: nothing; this is the slow half of a pair.
// Needs: nothing; x may be y.
// Expect: launches dominate if n is small, and trips to memory and back if n is large.
extern "C" __global__ void __launch_bounds__(THREADS)
operation(const float* x /* [n] */, float* y /* [n] */, unsigned n, unsigned number) {
    const unsigned i = blockIdx.x * THREADS + threadIdx.x;
    if (i < n) y[i] = number % 2 == 0 ? fmaf(x[i], 0.9f, 0.1f) : fmaxf(x[i], 0);
}
