// Idea: the block that arrives last adds up the losses of all blocks, so that the mean needs no launch; it can also decide the step.
// Formula: cross_entropy.cu, then loss.cu, with the same order of additions; then step.cuh, if `verdict.found` is not null.
// Since the last rung: cross_entropy, mean_loss and, in a step without a norm, judge_step and prepare are one kernel.
// Needs: as cross_entropy.cu; arrived u32 [1], 0 before the first launch; one launch at a time.
// Expect: the time of cross_entropy, plus one trip to L2 for the last block, which reads the others' sums.
#include "launch.cuh"
#include "nn/cross_entropy.cuh"
#include "nn/last_block.cuh"
#include "nn/loss.cuh"
#include "nn/step.cuh"
#include "xray.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
cross_entropy_last(const In* __restrict__ logits /* [batch][classes] */, const unsigned char* __restrict__ labels /* [batch] */,
                   unsigned batch, unsigned classes, float smoothing, float rows,
                   const float* __restrict__ loss_scale /* [1] or null */,
                   In* __restrict__ dlogits /* [batch][classes] or null */, double* partial /* [gridDim.x] */,
                   unsigned* hits /* [gridDim.x] */, unsigned* arrived /* [1] */, double count, const unsigned* slot /* [1] */,
                   double* losses /* [slots] */, unsigned* correct /* [slots] or null */, unsigned slots, Verdict verdict) {
    MARK_BEGIN(cross_entropy_last);
    wait_for_predecessor();
    let_successor_start();
    MARK(compute);
    rows_of_block(logits, labels, batch, classes, smoothing, rows, loss_scale, dlogits, partial, hits);
    MARK(exchange);
    if (!is_last_block(arrived)) {
        MARK(end);
        return;
    }
    MARK(reduce);
    mean_of_blocks(partial, hits, gridDim.x, count, slot, losses, correct, slots);
    if (threadIdx.x == 0) judge_and_prepare(verdict);
    MARK(end);
}
