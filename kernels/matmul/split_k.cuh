// Exchanges partial sums between the blocks of a cluster that split the k of a tile.
#pragma once
#include "matmul/stores.cuh"

constexpr int PART = WIDTH / 2 / SPLIT;                  // Number of a thread's sums that one block completes.
constexpr int SENT_BYTES = CONSUMER_THREADS * PART * 4;  // Bytes of the sums that all threads of a block send to one other block.
static_assert(WIDTH / 8 % SPLIT == 0, "a block is responsible for whole groups of eight columns, or swapped of eight rows");
static_assert(DYNAMIC_SHARED_BYTES >= STAGES * STAGE_BYTES + BM * BN / SPLIT * (SPLIT - 1) * 4 + 1024, "room for the other blocks' partial sums");
static_assert(SPLIT == 1 || HEIGHT == 1, "each sum of a thread has one block that is responsible for it");
static_assert(SPLIT * CLUSTER <= 8, "larger clusters are not on every chip");

// Completes the part of a tile's sums for which this block is responsible: the block sends each other part to the block responsible for it,
// and adds what the other blocks send to it. `rank` is the block's part of k, `place` the tile's place in the cluster, and `base` the address of the first
// stage. The barrier `received` expects the bytes that are sent to this block.
__device__ __forceinline__ void exchange_parts(const Sums& sums, float (&own)[PART], unsigned base, unsigned rank, unsigned place,
                                               unsigned long long* received) {
    // A thread sends to the thread with the same index in the other block. Each sender has a slot there, behind the stages.
    const unsigned slots = base + STAGES * STAGE_BYTES + threadIdx.x * 16, signal = shared_address(received);
#pragma unroll
    for (unsigned part = 0; part < SPLIT; ++part) {
        if (part == rank) {
#pragma unroll
            for (int i = 0; i < PART; ++i) own[i] = sums.d[part * PART + i];
        } else {
            const unsigned slot = slots + (rank < part ? rank : rank - 1) * SENT_BYTES, their_rank = part * CLUSTER + place;
            const unsigned to = address_in(their_rank, slot), theirs = address_in(their_rank, signal);
#pragma unroll
            for (int i = 0; i < PART; i += 4) {
                const float* from = &sums.d[part * PART + i];
                store_and_signal(to + i * 4 * CONSUMER_THREADS, make_float4(from[0], from[1], from[2], from[3]), theirs);
            }
        }
    }
    // Every block waits for everything that is sent to it, so that no block sends to a block that has exited.
    MARK(barrier);
    barrier_wait(received, 0);
    MARK(store);
#pragma unroll
    for (int s = 0; s < SPLIT - 1; ++s) {
#pragma unroll
        for (int i = 0; i < PART; i += 4) {
            const float4 v = load_shared(slots + s * SENT_BYTES + i * 4 * CONSUMER_THREADS);
            own[i] += v.x, own[i + 1] += v.y, own[i + 2] += v.z, own[i + 3] += v.w;
        }
    }
}
