// Idea: the exchange that ends each epoch of a persistent rung, on its own: there are no loads of points to hide it.
// Formula: `rounds` rounds of PairExchange over all blocks; every block hands over the mean of the last round; out[block] = that mean.
// Since the last rung: not a rung; it is compared with the part of an epoch's time that its bytes do not explain.
// Needs: all blocks resident at once: a cooperative launch; words[2][blocks][SLOT_WORDS], control zeroed before the first launch.
// Expect: a store to L2, loads from it and a dozen additions, each waiting for the previous one: one to two thousand cycles.
#include "exchange.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, 1)
exchanges(float* __restrict__ out /* [blocks] */, unsigned long long* words /* [2][blocks][SLOT_WORDS] */, Control* control,
          unsigned blocks, unsigned rounds, unsigned long long limit_ns) {
    __shared__ float handed_over;
    __shared__ bool given_up;
    PairExchange exchange(words, control, blocks, limit_ns);
    const float share = 1.0f / (float)blocks;
    if (threadIdx.x == 0) handed_over = 1.0f, given_up = false;
    __syncthreads();
    for (unsigned round = 1; round <= rounds; ++round) {
        if (threadIdx.x < WARP) {
            exchange.publish(round, handed_over);
            float of_all = 0.0f;
            if (!exchange.collect(round, of_all)) given_up = true;
            // Both sums are the same in this kernel, so either one will do.
            __syncwarp();
            if (threadIdx.x == 0) handed_over = of_all * share;
        }
        __syncthreads();
        if (given_up) return;
    }
    if (threadIdx.x == 0) {
        out[blockIdx.x] = handed_over;
        // Every block has read the round by now, since each block publishes only after that read.
        if (blockIdx.x == 0) control->round = exchange.base + rounds;
    }
}
