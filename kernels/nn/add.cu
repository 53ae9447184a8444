// Idea: the sum of a residual connection, and the sum of two gradients of the same value.
// Formula: y[i] = a[i] + b[i]; dx[i] = dx[i] + dy[i]; sum[i] = sum[i] + share x[i]; all [n] of type IN, added in f32 and rounded once.
// Since the last rung: not a rung; the separate pass of one layer.
// Needs: any n and alignment; arrays that are not aligned to 16 bytes are processed element by element. y may be a or b.
// Expect: DRAM bandwidth: two reads and a write of each element.
#include "launch.cuh"
#include "nn/elements.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
add_forward(const In* a /* [n] */, const In* b /* [n] */, In* y /* [n] */, unsigned long long n) {
    wait_for_predecessor();
    let_successor_start();
    map(a, b, y, n, [](float a, float b) { return a + b; });
}

extern "C" __global__ void __launch_bounds__(THREADS)
add_accumulate(const In* dy /* [n] */, In* dx /* [n] */, unsigned long long n) {
    wait_for_predecessor();
    let_successor_start();
    map(dy, dx, dx, n, [](float dy, float dx) { return dx + dy; });
}

extern "C" __global__ void __launch_bounds__(THREADS)
add_weighted(In* x /* [n] */, float share, unsigned first, float* __restrict__ sum /* [n] */, unsigned long long n) {
    wait_for_predecessor();
    let_successor_start();
    for (size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x; i < n; i += (size_t)gridDim.x * THREADS) {
        const float all = __fadd_rn(first ? 0.0f : sum[i], __fmul_rn(share, to_float(x[i])));
        sum[i] = all;
        x[i] = from_float<In>(all);
    }
}
