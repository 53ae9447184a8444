// The block of a launch that arrives last goes on with what all of them have left behind, so that no other launch is needed for it.
// As in NVIDIA's sample threadFenceReduction, with a counter that resets itself.
#pragma once

// Whether this block is the last of its launch to call it; every thread of every block calls it once, after its last read of what the
// last block changes. FENCED: what the blocks have written before is then visible to all threads of the last one, which read it past L1;
// otherwise that one may use nothing that they have written.
// `arrived` is 0 before a launch and after it, so that a graph can be replayed; no two launches that share it run at once.
template <bool FENCED = true> __device__ __forceinline__ bool is_last_block(unsigned* arrived /* [1] */) {
    __shared__ bool is_last;
    // All of the block's writes come before the fence of its first thread, and that before its arrival.
    __syncthreads();
    if (threadIdx.x == 0) {
        if (FENCED) __threadfence();
        // Counts to gridDim.x - 1 and then from 0 again.
        is_last = atomicInc(arrived, gridDim.x - 1) == gridDim.x - 1;
        // Nothing is read before the others have arrived.
        if (FENCED) __threadfence();
    }
    __syncthreads();
    return is_last;
}
