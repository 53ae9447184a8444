// Idea: one block adds up the losses of all blocks in f64, always in the same order, and the result stays on the device.
// Formula: losses[*slot] = (sum of partial[0..m)) / count; correct[*slot] = sum of hits[0..m); partial f64, hits u32, losses f64.
// Since the last rung: not a rung; the second level of the sums of cross_entropy.cu and mse.cu.
// Needs: any m; *slot below slots, otherwise nothing is written; hits and correct may both be null.
// Expect: a few microseconds, for the launch and one trip to L2; the host need not wait for a loss before the next step.
#include "launch.cuh"
#include "nn/loss.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
mean_loss(const double* __restrict__ partial /* [m] */, const unsigned* __restrict__ hits /* [m] or null */, unsigned m,
          double count, const unsigned* __restrict__ slot /* [1] */, double* __restrict__ losses /* [slots] */,
          unsigned* __restrict__ correct /* [slots] or null */, unsigned slots) {
    wait_for_predecessor();
    let_successor_start();
    mean_of_blocks(partial, hits, m, count, slot, losses, correct, slots);
}
