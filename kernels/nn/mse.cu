// Idea: one pass gives the gradient and the block's sum of squares; the sums of the blocks are added by loss.cu.
// Formula: doutput[i] = factor scale (output[i] - target[i]), factor = 2 / n; partial[block] = sum of (output - target)^2, f64.
// Since the last rung: not a rung; the loss of a regression and its gradient.
// Needs: output and doutput (or null) [n] of type IN, target f32 [n]; any n from 1 and any alignment.
// Expect: DRAM bandwidth; a block's share of the elements depends only on n, so the loss has the same bits on every device.
#include "launch.cuh"
#include "nn/mse.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
mse(const In* __restrict__ output /* [n] */, const float* __restrict__ target /* [n] */, unsigned long long n, float factor,
    const float* __restrict__ loss_scale /* [1] or null */, In* __restrict__ doutput /* [n] or null */,
    double* __restrict__ partial /* [gridDim.x] */) {
    wait_for_predecessor();
    let_successor_start();
    errors_of_block(output, target, n, factor, loss_scale, doutput, partial);
}
