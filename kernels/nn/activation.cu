// Idea: an activation reads each element once and writes it once; groups of 16 bytes a thread keep enough bytes in flight.
// Formula: y[i] = f(x[i]); dx[i] = dy[i] f'(x[i]); f is max(x, 0) or x times the normal distribution function; all [n] of type IN.
// Since the last rung: not a rung; a layer's own pass, where no epilogue of a product does it.
// Needs: any n and alignment; arrays that do not begin at 16 bytes go element by element. The output may be an input.
// Expect: DRAM bandwidth, or that of L2 right after the layer before; the arithmetic of GELU is hidden behind it in 16 bits.
#include "launch.cuh"
#include "nn/elements.cuh"

// The normal distribution's function at x, and exp(-x^2 / 2).
struct Normal { float below, bell; };
__device__ __forceinline__ Normal normal(float x, float) { return {normcdff(x), expf(-0.5f * x * x)}; }

// For 16 bits, since normcdff and its 40 instructions for an element take longer than memory. The tail beyond |x|, over exp(-x^2 / 2), is
// smooth in u = 1 / (1 + 0.32 |x|): u times this polynomial. The relative error is below 5e-6, also where the tail is small.
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
    // PyTorch passes dy where y is NaN, and so does this.
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
