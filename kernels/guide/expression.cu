// Idea: a chain of operations is given as text and compiled to one kernel while the program runs.
// Formula: y[i] = EXPRESSION of v = x[i]; f32[n].
// Since the last rung: the fused kernel is not written by hand; it is generated and compiled before the first call.
// Needs: EXPRESSION, a C++ expression of v, defined before the first line; without it, y is v.
// Expect: tens of milliseconds for the compiler, then the time for one pass through memory.
#ifndef EXPRESSION
#define EXPRESSION v
#endif

extern "C" __global__ void __launch_bounds__(THREADS)
expression(const float* __restrict__ x /* [n] */, float* __restrict__ y /* [n] */, unsigned n, unsigned) {
    const unsigned i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= n) return;
    const float v = x[i];
    y[i] = EXPRESSION;
}
