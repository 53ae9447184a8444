// The last block of a launch to finish continues with the results of all blocks, so that no second launch is needed. The code follows
// NVIDIA's sample threadFenceReduction, with a counter that resets itself.
#pragma once

// True if this block is the last of its launch to call this function. Every thread of every block calls it once, after its last read of
// data that the last block changes. FENCED: all earlier writes of the blocks are visible to all threads of the last block, if they bypass
// L1; otherwise the last block must not use anything that other blocks have written. `arrived` is 0 before and after a launch, so that
// a graph can be replayed; launches that share `arrived` must not run at the same time.
template <bool FENCED = true> __device__ __forceinline__ bool is_last_block(unsigned* arrived /* [1] */) {
    __shared__ bool is_last;
    // All of the block's writes come before its first thread's fence, which comes before the block's arrival.
    __syncthreads();
    if (threadIdx.x == 0) {
        if (FENCED) __threadfence();
        // atomicInc counts up to gridDim.x - 1, then starts again at 0.
        is_last = atomicInc(arrived, gridDim.x - 1) == gridDim.x - 1;
        // The fence keeps later reads from moving ahead of the arrival of the other blocks.
        if (FENCED) __threadfence();
    }
    __syncthreads();
    return is_last;
}
