// Idea: the block that arrives last also ends the step: it updates rings, gradient scaler and counters, so that no separate launch is needed.
// Formula: optimizer.cu, then step.cuh; the end of the step reads nothing that other blocks write, and changes nothing that other blocks still read.
// Since the last rung: the update and finish_step are one kernel.
// Needs: as optimizer.cu; arrived u32 [1], 0 before the first launch; one launch at a time.
// Expect: the time of the update, plus one trip to L2 by the last block; a skipped step takes the same path.
#include "launch.cuh"
#include "nn/last_block.cuh"
#include "nn/optimizer.cuh"
#include "xray.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
sgd_last(Settings, const Step* __restrict__ step /* [1] */, float* __restrict__ weights /* [n] */,
         const float* __restrict__ gradients /* [split] */, const In* __restrict__ rounded /* [n - split] or null */,
         unsigned long long split, In* __restrict__ copy /* [n] or null */, unsigned long long n,
         unsigned* arrived /* [1] */, End end) {
    MARK_BEGIN(sgd_last);
    wait_for_predecessor();
    let_successor_start();
    MARK(compute);
    update_sgd(step, weights, gradients, rounded, split, copy, n);
    MARK(exchange);
    if (is_last_block<false>(arrived) && threadIdx.x == 0) finish(end);
    MARK(end);
}

extern "C" __global__ void __launch_bounds__(THREADS)
sgd_momentum_last(Settings settings, const Step* __restrict__ step /* [1] */, float* __restrict__ weights /* [n] */,
                  const float* __restrict__ gradients /* [split] */, const In* __restrict__ rounded /* [n - split] or null */,
                  unsigned long long split, float* __restrict__ momentum /* [n] */, In* __restrict__ copy /* [n] or null */, unsigned long long n,
                  unsigned* arrived /* [1] */, End end) {
    MARK_BEGIN(sgd_momentum_last);
    wait_for_predecessor();
    let_successor_start();
    MARK(compute);
    update_sgd_momentum(settings, step, weights, gradients, rounded, split, momentum, copy, n);
    MARK(exchange);
    if (is_last_block<false>(arrived) && threadIdx.x == 0) finish(end);
    MARK(end);
}

extern "C" __global__ void __launch_bounds__(THREADS)
adam_last(Settings, const Step* __restrict__ step /* [1] */, float* __restrict__ weights /* [n] */,
          const float* __restrict__ gradients /* [split] */, const In* __restrict__ rounded /* [n - split] or null */,
          unsigned long long split, float* __restrict__ first /* [n] */, float* __restrict__ second /* [n] */,
          In* __restrict__ copy /* [n] or null */, unsigned long long n,
          unsigned* arrived /* [1] */, End end) {
    MARK_BEGIN(adam_last);
    wait_for_predecessor();
    let_successor_start();
    MARK(compute);
    update_adam(step, weights, gradients, rounded, split, first, second, copy, n);
    MARK(exchange);
    if (is_last_block<false>(arrived) && threadIdx.x == 0) finish(end);
    MARK(end);
}
