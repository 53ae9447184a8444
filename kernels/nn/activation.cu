// Idea: an activation reads each element once and writes it once; groups of 16 bytes a thread keep enough bytes in flight.
// Formula: y[i] = f(x[i]); dx[i] = dy[i] f'(x[i]); f is max(x, 0) or x times the normal distribution function; all [n] of type IN.
// Since the last rung: not a rung; a layer's own pass, where no epilogue of a product does it.
// Needs: any n and alignment; arrays that do not begin at 16 bytes go element by element. The output may be an input.
// Expect: DRAM bandwidth, or that of L2 right after the layer before; the arithmetic of GELU is hidden behind it.
#include "launch.cuh"
#include "nn/elements.cuh"

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
    map(x, y, n, [](float x) { return x * normcdff(x); });
}

extern "C" __global__ void __launch_bounds__(THREADS)
gelu_backward(const In* x /* [n] */, const In* dy /* [n] */, In* dx /* [n] */, unsigned long long n) {
    wait_for_predecessor();
    let_successor_start();
    map(x, dy, dx, n, [](float x, float dy) {
        const float density = 0.39894228f * expf(-0.5f * x * x);
        return dy * (normcdff(x) + x * density);
    });
}
