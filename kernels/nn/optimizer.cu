// Idea: all parameters are in one array, so one launch updates them; values that change from step to step are read from device memory.
// Formula: the rules of crates/warpbook-nn/src/ops/optimizer/mod.rs; weights, state f32 [n], gradients f32 [split], then IN [n - split].
// Since the last rung: not a rung; the update, after the norm for clipping and the check for infinities and NaN.
// Needs: any n and alignment; split a multiple of 4, or n; control f64 [2] (learning rate, steps done); copy of type IN [n] or null.
// Expect: DRAM bandwidth, 12 bytes per weight for SGD and 28 for Adam; every operation rounds separately, so the bits match the CPU's.
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

// Restores the first n elements of the weights and their state after a step that updated them before its overflow was detected. A step
// that was stopped because of its loss has not updated any parameters.
extern "C" __global__ void __launch_bounds__(THREADS)
restore(const unsigned* __restrict__ found /* [1] */, const unsigned* __restrict__ counters /* [4] */,
        const float* __restrict__ kept /* [1 + arrays of state][n] */, unsigned long long n, float* __restrict__ weights /* [n] */,
        float* __restrict__ first /* [n] or null */, float* __restrict__ second /* [n] or null */, In* __restrict__ copy /* [n] or null */) {
    wait_for_predecessor();
    let_successor_start();
    if (!*found || counters[HALTED]) return;
    const bool grouped = in_groups(kept) && in_groups(kept + n) && in_groups(weights) && in_groups(first) && in_groups(second);
    const bool copied = in_groups(copy);
    for (size_t at = ((size_t)blockIdx.x * THREADS + threadIdx.x) * 4; at < n; at += (size_t)gridDim.x * THREADS * 4) {
        const Four w = Four::load(kept, at, n, grouped);
        w.store(weights, at, n, grouped);
        if (copy) w.store_copy(copy, at, n, copied);
        if (first) Four::load(kept + n, at, n, grouped).store(first, at, n, grouped);
        if (second) Four::load(kept + 2 * n, at, n, grouped).store(second, at, n, grouped);
    }
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
