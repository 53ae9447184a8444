// The last block of a launch to arrive continues with the results of all blocks, so that no other launch is needed. This follows
// NVIDIA's sample threadFenceReduction, with a counter that resets itself.
#pragma once

// True if this block is the last of its launch to call it. Every thread of every block calls it once, after its last read of data that
// the last block changes. FENCED: all earlier writes of the blocks are visible to all threads of the last block, which reads them past
// L1; otherwise the last block may use nothing that the others have written. `arrived` is 0 before a launch and after it, so that a
// graph can be replayed; launches that share it must not run at the same time.
template <bool FENCED = true> __device__ __forceinline__ bool is_last_block(unsigned* arrived /* [1] */) {
    __shared__ bool is_last;
    // All of the block's writes come before its first thread's fence, which comes before the block's arrival.
    __syncthreads();
    if (threadIdx.x == 0) {
        if (FENCED) __threadfence();
        // Counts to gridDim.x - 1, then starts again at 0.
        is_last = atomicInc(arrived, gridDim.x - 1) == gridDim.x - 1;
        // Keeps reads behind the arrival of the other blocks.
        if (FENCED) __threadfence();
    }
    __syncthreads();
    return is_last;
}
