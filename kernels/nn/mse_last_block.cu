// Idea: the block that arrives last adds up the errors of all blocks, so that the mean needs no launch; it can also decide the step.
// Formula: mse.cu, then loss.cu, with the same order of additions; then step.cuh, if `verdict.found` is not null.
// Since the last rung: mse, mean_loss and, in a step without a norm, judge_step and prepare are one kernel.
// Needs: as mse.cu; arrived u32 [1], 0 before the first launch; one launch at a time.
// Expect: the time of mse, plus one trip to L2 for the last block, which reads the others' sums.
#include "launch.cuh"
#include "nn/last_block.cuh"
#include "nn/loss.cuh"
#include "nn/mse.cuh"
#include "nn/step.cuh"
#include "xray.cuh"

// Four blocks per SM leave enough registers. Without this bound, the compiler spills registers around the call of pow.
extern "C" __global__ void __launch_bounds__(THREADS, 4)
mse_last(const In* __restrict__ output /* [n] */, const float* __restrict__ target /* [n] */, unsigned long long n, float factor,
         const float* __restrict__ loss_scale /* [1] or null */, In* __restrict__ doutput /* [n] or null */,
         double* partial /* [gridDim.x] */, unsigned* arrived /* [1] */, double count, const unsigned* slot /* [1] */,
         double* losses /* [slots] */, unsigned slots, Verdict verdict) {
    MARK_BEGIN(mse_last);
    wait_for_predecessor();
    let_successor_start();
    MARK(compute);
    errors_of_block(output, target, n, factor, loss_scale, doutput, partial);
    MARK(exchange);
    if (!is_last_block(arrived)) {
        MARK(end);
        return;
    }
    MARK(reduce);
    mean_of_blocks(partial, nullptr, gridDim.x, count, slot, losses, nullptr, slots);
    if (threadIdx.x == 0) judge_and_prepare(verdict);
    MARK(end);
}
