// Idea: an activation reads each element once and writes it once; groups of 16 bytes per thread keep enough bytes in flight.
// Formula: y[i] = f(x[i]); dx[i] = dy[i] f'(x[i]); f is max(x, 0) or x times the normal distribution function; all [n] of type IN.
// Since the last rung: not a rung; the separate pass of a layer whose activation is not fused into the epilogue of a product.
// Needs: any n and alignment; arrays that are not aligned to 16 bytes are processed element by element. The output may be an input.
// Expect: DRAM bandwidth, or L2 bandwidth right after the previous layer; with 16-bit types the memory accesses hide the arithmetic of GELU.
#include "launch.cuh"
#include "nn/elements.cuh"

// The normal distribution function at x, and exp(-x^2 / 2).
struct Normal { float below, bell; };
__device__ __forceinline__ Normal normal(float x, float) { return {normcdff(x), expf(-0.5f * x * x)}; }

// For 16-bit types: normcdff takes 40 instructions per element, longer than the memory access. The tail beyond |x|, divided by
// exp(-x^2 / 2), is smooth in u = 1 / (1 + 0.32 |x|): u times this polynomial. The relative error is below 5e-6 even for small tails.
template <class T> __device__ __forceinline__ Normal normal(float x, T) {
    float u, bell;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(u) : "f"(fmaf(0.32f, fabsf(x), 1.0f)));
    // exp(-x^2 / 2) = 2^(-x^2 log2(e) / 2)
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(bell) : "f"(x * x * -0.72134752f));
    float tail = 0.0322910986f;
    const float terms[] = {-0.114662469f, 0.0953424024f, 0.0231710440f, 0.0945137793f, 0.113999297f, 0.127682954f, 0.127661405f};
#pragma unroll
    for (const float term : terms) tail = fmaf(tail, u, term);
    tail *= u * bell;
    return {x < 0.0f ? tail : 1.0f - tail, bell};
}

extern "C" __global__ void __launch_bounds__(THREADS)
relu_forward(const In* x /* [n] */, In* y /* [n] */, unsigned long long n) {
    wait_for_predecessor();
    let_successor_start();
    // fmaxf would turn a NaN into 0.
    map(x, y, n, [](float x) { return x < 0.0f ? 0.0f : x; });
}

extern "C" __global__ void __launch_bounds__(THREADS)
relu_backward(const In* y /* [n] */, const In* dy /* [n] */, In* dx /* [n] */, unsigned long long n) {
    wait_for_predecessor();
    let_successor_start();
    // If y is NaN, dy passes through unchanged, as in PyTorch.
    map(y, dy, dx, n, [](float y, float dy) { return y <= 0.0f ? 0.0f : dy; });
}

extern "C" __global__ void __launch_bounds__(THREADS)
gelu_forward(const In* x /* [n] */, In* y /* [n] */, unsigned long long n) {
    wait_for_predecessor();
    let_successor_start();
    map(x, y, n, [](float x) { return x * normal(x, In{}).below; });
}

extern "C" __global__ void __launch_bounds__(THREADS)
gelu_backward(const In* x /* [n] */, const In* dy /* [n] */, In* dx /* [n] */, unsigned long long n) {
    wait_for_predecessor();
    let_successor_start();
    map(x, dy, dx, n, [](float x, float dy) {
        const Normal n = normal(x, In{});
        return dy * (n.below + x * 0.39894228f * n.bell);
    });
}
