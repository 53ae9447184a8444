// Idea: one launch squares the gradients of both types, and the block that arrives last computes the scalars of the update.
// Formula: norm.cu, then step.cuh, with the same order of additions: the sums of the blocks of `gradients`, then of the blocks of `rounded`.
// Since the last rung: both launches of sum_squares, global_norm, judge_step and prepare are one kernel.
// Needs: as norm.cu; partial f64 [m]: one sum per part of both arrays, then those that sum_squares wrote; arrived u32 [1], initially 0.
// Expect: the time of sum_squares over both arrays, plus one trip to L2 by the last block and the work of one thread.
#include "launch.cuh"
#include "nn/last_block.cuh"
#include "nn/norm.cuh"
#include "nn/step.cuh"
#include "xray.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
sum_squares_last(const float* __restrict__ gradients /* [split] */, const In* __restrict__ rounded /* [n - split] or null */,
                 unsigned long long split, unsigned long long n, double* partial /* [m] */, unsigned m, unsigned* arrived /* [1] */,
                 double most, const float* loss_scale /* [1] or null */, double* norm /* [1] */, float* clip /* [1] */,
                 unsigned* overflow /* [1] */, Verdict verdict) {
    MARK_BEGIN(sum_squares_last);
    wait_for_predecessor();
    let_successor_start();
    MARK(compute);
    const unsigned exact = parts(split);
    if (blockIdx.x < exact) {
        squares_of_part(gradients, split, blockIdx.x, partial + blockIdx.x);
    } else {
        squares_of_part(rounded, n - split, blockIdx.x - exact, partial + blockIdx.x);
    }
    MARK(exchange);
    if (!is_last_block(arrived)) {
        MARK(end);
        return;
    }
    MARK(reduce);
    norm_of_blocks(partial, m, most, loss_scale, norm, clip, overflow);
    if (threadIdx.x == 0) judge_and_prepare(verdict);
    MARK(end);
}
