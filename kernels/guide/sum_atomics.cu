// Idea: every thread adds its element to one sum.
// Formula: y[0] += x[0] + .. + x[n - 1]; f32, exact if the numbers are small integers.
// Since the last rung: nothing; this is the slow half of a pair.
// Needs: y[0] = 0 at launch.
// Expect: additions to one address run one after another, in one slice of L2.
extern "C" __global__ void __launch_bounds__(THREADS)
sum(const float* __restrict__ x /* [n] */, float* __restrict__ y /* [1] */, unsigned n, unsigned) {
    const unsigned i = blockIdx.x * THREADS + threadIdx.x;
    if (i < n) atomicAdd(y, x[i]);
}
