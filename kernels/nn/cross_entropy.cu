// Idea: one warp per row: its lanes find the largest logit, the sum of exponentials and the gradient, and the row stays in L1.
// Formula: loss = -sum_c t[c] log softmax(logits)[c], dlogits = scale (softmax - t) / rows, t = (1 - s) at the label + s / classes.
// Since the last rung: not a rung; fused with softmax and with the gradient, which needs the same exponentials.
// Needs: logits and dlogits (or null) [batch][classes] of type IN, labels u8 [batch]; a label that is not below classes makes the loss NaN.
// Expect: with many classes bound by DRAM, with ten by the latency of three passes over a row; every run adds in the same order.
#include "launch.cuh"
#include "nn/cross_entropy.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
cross_entropy(const In* __restrict__ logits /* [batch][classes] */, const unsigned char* __restrict__ labels /* [batch] */,
              unsigned batch, unsigned classes, float smoothing, float rows,
              const float* __restrict__ loss_scale /* [1] or null */,
              In* __restrict__ dlogits /* [batch][classes] or null */, double* __restrict__ partial /* [gridDim.x] */,
              unsigned* __restrict__ hits /* [gridDim.x] */) {
    wait_for_predecessor();
    let_successor_start();
    rows_of_block(logits, labels, batch, classes, smoothing, rows, loss_scale, dlogits, partial, hits);
}
