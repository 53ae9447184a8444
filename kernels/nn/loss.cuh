// The second level of the sums of a loss, added by one block.
#pragma once
#include "nn/sums.cuh"

// Sets losses[*slot] = (sum of partial[0..m)) / count and correct[*slot] = sum of hits[0..m), added in the same order on every run.
// Other blocks of this launch may have written the partial sums, so the loads bypass L1.
__device__ __forceinline__ void mean_of_blocks(const double* partial /* [m] */, const unsigned* hits /* [m] or null */, unsigned m,
                                               double count, const unsigned* slot /* [1] */, double* losses /* [slots] */,
                                               unsigned* correct /* [slots] or null */, unsigned slots) {
    double sum = 0.0, right = 0.0;
    // The additions keep their order, though several loads are in flight at once.
#pragma unroll 4
    for (unsigned i = threadIdx.x; i < m; i += THREADS) {
        sum += __ldcg(partial + i);
        // Whole numbers below 2^53 add up exactly.
        if (hits) right += (double)__ldcg(hits + i);
    }
    sum = block_sum<THREADS>(sum);
    right = block_sum<THREADS>(right);
    const unsigned to = *slot;
    if (threadIdx.x == 0 && to < slots) {
        losses[to] = sum / count;
        if (correct) correct[to] = (unsigned)right;
    }
}
