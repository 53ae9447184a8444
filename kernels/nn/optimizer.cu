// Idea: all parameters lie in one array, so one launch updates them; what changes from step to step is read from device memory.
// Formula: as crates/warpbook-nn/src/ops/optimizer/mod.rs has it; weights, state f32 [n], gradients f32 [split], then IN [n - split].
// Since the last rung: not a rung; the update, the norm for clipping and the check for infinities and NaN before it.
// Needs: any n and alignment; split a multiple of 4, or n; control f64 [2] (learning rate, steps done); copy of type IN [n] or null.
// Expect: DRAM bandwidth, 12 bytes a weight for SGD and 28 for Adam; single roundings, so the bits are those of the CPU.
#include "launch.cuh"
#include "nn/optimizer.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
prepare(Settings s, double* __restrict__ control /* [2] */, const unsigned* __restrict__ found /* [1] or null */,
        const float* __restrict__ loss_scale /* [1] or null */, const float* __restrict__ clip /* [1] or null */,
        Step* __restrict__ step /* [1] */) {
    wait_for_predecessor();
    let_successor_start();
    if (threadIdx.x == 0) prepare_update(s, control, found, loss_scale, clip, step);
}

extern "C" __global__ void __launch_bounds__(THREADS)
sgd(Settings, const Step* __restrict__ step /* [1] */, float* __restrict__ weights /* [n] */,
    const float* __restrict__ gradients /* [split] */, const In* __restrict__ rounded /* [n - split] or null */,
    unsigned long long split, In* __restrict__ copy /* [n] or null */, unsigned long long n) {
    wait_for_predecessor();
    let_successor_start();
    update_sgd(step, weights, gradients, rounded, split, copy, n);
}

extern "C" __global__ void __launch_bounds__(THREADS)
sgd_momentum(Settings settings, const Step* __restrict__ step /* [1] */, float* __restrict__ weights /* [n] */,
             const float* __restrict__ gradients /* [split] */, const In* __restrict__ rounded /* [n - split] or null */,
             unsigned long long split, float* __restrict__ momentum /* [n] */, In* __restrict__ copy /* [n] or null */, unsigned long long n) {
    wait_for_predecessor();
    let_successor_start();
    update_sgd_momentum(settings, step, weights, gradients, rounded, split, momentum, copy, n);
}

extern "C" __global__ void __launch_bounds__(THREADS)
adam(Settings, const Step* __restrict__ step /* [1] */, float* __restrict__ weights /* [n] */,
     const float* __restrict__ gradients /* [split] */, const In* __restrict__ rounded /* [n - split] or null */,
     unsigned long long split, float* __restrict__ first /* [n] */, float* __restrict__ second /* [n] */,
     In* __restrict__ copy /* [n] or null */, unsigned long long n) {
    wait_for_predecessor();
    let_successor_start();
    update_adam(step, weights, gradients, rounded, split, first, second, copy, n);
}
