// Code that the persistent kernels share: the order in which resident blocks traverse the tiles of C, and the ring of stages that one producer
// fills and CONSUMERS warpgroups empty, across all blocks of a cluster.
#pragma once
#include "matmul/hopper.cuh"

constexpr int CONSUMERS = (B_IN_REGISTERS || SWAPPED ? BN : BM) / (64 * HEIGHT);
static_assert(THREADS == (CONSUMERS + 1) * WARPGROUP, "one consumer for every 64 HEIGHT rows (or columns), and a producer");
#ifndef GROUP
#define GROUP 1
#endif

// Orders the tiles in groups of `group` rows, and column by column within a group. The tiles in progress at one time cover a roughly square region, so
// that they share most of what they read and find it in L2. A cluster computes one tile per block.
struct Tiles {
    unsigned rows, columns;  // Rows and columns of tiles, counted in clusters.
    unsigned group;

    __device__ __forceinline__ Tiles(unsigned m, unsigned n, unsigned group = GROUP)
        : rows((m + BM * CLUSTER_M - 1) / (BM * CLUSTER_M)), columns((n + BN * CLUSTER_N - 1) / (BN * CLUSTER_N)), group(group) {}

    // The order for blocks that compute one tile each. The SMs of a GPC read a line from L2 only once if they read it at the same time. Therefore,
    // if rows of tiles are long, the SMs of a GPC compute the tiles of a few rows.
    __device__ __forceinline__ static Tiles at_once(unsigned m, unsigned n, unsigned k_blocks) {
        Tiles tiles(m, n, 1);
        if (tiles.columns >= 16 && k_blocks >= 30) tiles.group = 4;
        return tiles;
    }

    __device__ __forceinline__ unsigned count() const { return rows * columns; }

    __device__ __forceinline__ void at(unsigned index, unsigned rank, unsigned& row, unsigned& column) const {
        const unsigned a_group = group * columns, first = index / a_group * group;
        const unsigned height = min(group, rows - first), within = index % a_group;
        row = ((first + within % height) * CLUSTER_M + rank % CLUSTER_M) * BM;
        column = (within / height * CLUSTER_N + rank / CLUSTER_M) * BN;
    }
};

struct Barriers {
    unsigned full, empty;     // Addresses of STAGES barriers each.
    unsigned first_rank = 0;  // The first of the CLUSTER blocks that share tiles, in a cluster that has more.

    // All threads call this constructor. Other blocks may use these barriers after `meet`.
    __device__ __forceinline__ Barriers(unsigned long long* full_barriers, unsigned long long* empty_barriers)
        : full(shared_address(full_barriers)), empty(shared_address(empty_barriers)) {
        if (threadIdx.x == 0) {
            for (int s = 0; s < STAGES; ++s) {
                barrier_init(&full_barriers[s], 1), barrier_init(&empty_barriers[s], CONSUMERS * CLUSTER);
            }
            barrier_init_done();
        }
        if (CLUSTER > 1) cluster_arrive();
        __syncthreads();
    }

    // All threads call this function before they access another block's shared memory.
    __device__ __forceinline__ void meet() const {
        if (CLUSTER > 1) cluster_wait();
    }

    // The producer's last step: waits until the last signals of free stages have arrived from other blocks, so that it can exit.
    __device__ __forceinline__ void drain(Ring& ring) const {
        MARK(wait);
        for (int s = 0; s < STAGES && CLUSTER > 1; ++s) wait_phase(empty + ring.stage * 8, ring.parity ^ 1), ring.advance();
    }

    // The producer's loop: waits for a free stage and loads the tiles at (row, column), k block by k block. `once` means that no other
    // tile reads this part of B.
    __device__ __forceinline__ void fill(Ring& ring, unsigned base, const TensorMap* a, const TensorMap* b, unsigned row,
                                         unsigned column, unsigned first, unsigned end, unsigned rank, bool once = false) const {
        for (unsigned block = first; block < end; ++block) {
            const unsigned barrier = full + ring.stage * 8, to = base + ring.stage * STAGE_BYTES;
            MARK(wait);
            wait_phase(empty + ring.stage * 8, ring.parity ^ 1);
            MARK(load);
            expect_bytes(barrier, STAGE_BYTES);
            load_a(to, a, row, block * BK, barrier, rank, first_rank);
            load_b(to + A_BYTES, b, column, block * BK, barrier, rank, first_rank, once);
            ring.advance();
        }
    }

    // Runs a consumer's loop, which sums over `blocks` stages (at least one). `a` and `b` are descriptors of the ring's first stage.
    __device__ __forceinline__ void multiply(Ring& ring, unsigned a, unsigned b, unsigned blocks, Sums& sums) const {
        multiply_and<0>(ring, a, b, blocks, sums, [](int) {});
    }

    // Runs a consumer's loop that also calls meanwhile(i), for i from 0 to TIMES - 1, each time while a stage is multiplied.
    template <int TIMES, class Meanwhile>
    __device__ __forceinline__ void multiply_and(Ring& ring, unsigned a, unsigned b, unsigned blocks, Sums& sums,
                                                 Meanwhile meanwhile) const {
        unsigned last = 0;
        const auto begin = [&](unsigned block) {
            MARK(wait);
            wait_phase(full + ring.stage * 8, ring.parity);
            MARK(multiply);
            sums.multiply(a + ring.stage * (STAGE_BYTES / 16), b + ring.stage * (STAGE_BYTES / 16), block > 0);
        };
        const auto end = [&](unsigned block) {
            // One stage stays in flight; the stage before it has been read.
            sums.wait<1>();
            if (block > 0) release(last);
            last = ring.stage;
            ring.advance();
        };
#pragma unroll
        for (int i = 0; i < TIMES; ++i) {
            if (i < blocks) begin(i);
            meanwhile(i);
            MARK(multiply);
            if (i < blocks) end(i);
        }
        for (unsigned block = TIMES; block < blocks; ++block) begin(block), end(block);
        sums.wait<0>();
        release(last);
        sums.hold();
    }

    // Every block that shares tiles with this one writes into the stage, so all these blocks are told that the stage is free.
    __device__ __forceinline__ void release(unsigned stage) const {
        if (CLUSTER == 1) {
            if (threadIdx.x % WARPGROUP == 0) arrive(empty + stage * 8);
        } else if (threadIdx.x % WARPGROUP < CLUSTER) {
            arrive_at(empty + stage * 8, first_rank + threadIdx.x % WARPGROUP);
        }
    }
};

// Stores a part of a tile through a buffer of a warpgroup. All threads fill the buffer; then one thread stores it by TMA (`store_by_copy`), or
// all threads store it. The last IN_FLIGHT stores by TMA may still read other buffers.
template <int IN_FLIGHT, class Fill, class StoreByCopy, class StoreByWarps>
__device__ __forceinline__ void send_through(unsigned by_copy, int barrier, Fill fill, StoreByCopy store_by_copy, StoreByWarps store_by_warps) {
    MARK(store);
    const bool leader = threadIdx.x % WARPGROUP == 0;
    if (by_copy && leader) store_wait_read<IN_FLIGHT>();
    warpgroup_sync(barrier);
    fill();
    if (by_copy) fence_for_copies();
    warpgroup_sync(barrier);
    if (!by_copy) store_by_warps();
    else if (leader) store_by_copy(), store_commit();
}

__device__ __forceinline__ unsigned rank_in_cluster() { return CLUSTER > 1 ? cluster_rank() : 0; }

// Writes four matrices of 8 x 8 16-bit elements to shared memory: lane l passes the address of row l % 8 of matrix l / 8.
__device__ __forceinline__ void write_pieces(unsigned at, unsigned a, unsigned b, unsigned c, unsigned d) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}
