// Idea: the last wave of tiles leaves SMs idle, so its tiles are cut along k and every SM gets the same number of k blocks of them.
// Formula: C = f(alpha op(A) op(B) + beta C); f16, bf16 or tf32 in, f32 sums; row-major, tiles of BM x BN.
// Since the last rung: 14 with its last tiles cut; who has the first of a tile's k adds what others leave of it in the workspace.
// Needs: the same as 14_overlapped_store, and a workspace for the partial sums of one tile per block; all blocks resident at once.
// Expect: as long as it takes to fill part of a wave, and an exchange through L2; nothing is gained where waves are full anyway.
//
// Osama et al., Stream-K: Work-centric Parallel Decomposition for Dense Matrix-Matrix Multiplication on the GPU, 2023.
#include "matmul/through_shared.cuh"

constexpr int VECTORS = WIDTH / 8;  // The sums of a thread, in float4.

// What a cluster computes: whole tiles in turn with the others, then its range of the k blocks of the tiles that are cut, tile after
// tile. Ranges differ by at most one k block. Only the first piece of a range can begin in the middle of a tile.
struct Pieces {
    unsigned tile, begin, end;  // The piece: a tile, and its k blocks.
    unsigned whole, first_cut;  // The next whole tile, and the first that is cut.
    unsigned at, until;         // What is left of the range.
    unsigned range;

    // Waits are for ranges behind one's own. These belong to clusters before one's own, which are resident first.
    __device__ __forceinline__ Pieces(unsigned count, unsigned cut, unsigned k_blocks)
        : whole(blockIdx.x / CLUSTER), first_cut(count - cut), range(clusters() - 1 - blockIdx.x / CLUSTER) {
        at = first_of(range, cut * k_blocks), until = first_of(range + 1, cut * k_blocks);
    }

    __device__ __forceinline__ static unsigned clusters() { return gridDim.x / CLUSTER; }

    // The first k block of a range, of `total`.
    __device__ __forceinline__ static unsigned first_of(unsigned range, unsigned total) {
        return range * (total / clusters()) + min(range, total % clusters());
    }

    __device__ __forceinline__ bool next(unsigned k_blocks) {
        if (whole < first_cut) {
            tile = whole, begin = 0, end = k_blocks, whole += clusters();
            return true;
        }
        if (at == until) return false;
        tile = at / k_blocks, begin = at - tile * k_blocks, end = min(k_blocks, begin + until - at);
        at += end - begin, tile += first_cut;
        return true;
    }
};

// The workspace: the partial sums that each block leaves of the tile in which its range begins, and a flag for each warpgroup of it.
// A flag is up while it is the ticket of the plan: other plans leave anything here. Who has read the sums takes it down again.
struct Exchange {
    float4* sums;               // [ranges][CLUSTER][CONSUMERS][VECTORS][WARPGROUP]
    unsigned long long* flags;  // [ranges][CLUSTER][CONSUMERS]
    unsigned long long ticket;

    __device__ __forceinline__ void leave(const Sums& own, unsigned slot, int id) const {
        MARK(exchange);
        float4* const to = sums + (size_t)slot * (VECTORS * WARPGROUP) + threadIdx.x % WARPGROUP;
#pragma unroll
        for (int i = 0; i < VECTORS; ++i) {
            __stcg(to + i * WARPGROUP, make_float4(own.d[4 * i], own.d[4 * i + 1], own.d[4 * i + 2], own.d[4 * i + 3]));
        }
        warpgroup_sync(id);
        if (threadIdx.x % WARPGROUP == 0) {
            asm volatile("st.release.gpu.global.b64 [%0], %1;" ::"l"(flags + slot), "l"(ticket) : "memory");
        }
    }

    __device__ __forceinline__ void add(Sums& own, unsigned slot, int id) const {
        MARK(barrier);
        if (threadIdx.x % WARPGROUP == 0) {
            unsigned long long seen;
            do {
                asm volatile("ld.acquire.gpu.global.b64 %0, [%1];" : "=l"(seen) : "l"(flags + slot) : "memory");
            } while (seen != ticket);
            flags[slot] = 0;
        }
        warpgroup_sync(id);
        MARK(exchange);
        const float4* const from = sums + (size_t)slot * (VECTORS * WARPGROUP) + threadIdx.x % WARPGROUP;
#pragma unroll
        for (int i = 0; i < VECTORS; ++i) {
            const float4 v = __ldcg(from + i * WARPGROUP);
            own.d[4 * i] += v.x, own.d[4 * i + 1] += v.y, own.d[4 * i + 2] += v.z, own.d[4 * i + 3] += v.w;
        }
    }

    // The sums of a piece become those of its tile: leaves them to another block, or adds what others leave of it, in the order of k.
    // Whether they are all there.
    __device__ __forceinline__ bool complete(Sums& own, const Pieces& piece, unsigned cut, unsigned k_blocks, unsigned rank, int group) const {
        const auto slot = [&](unsigned range) { return (range * CLUSTER + rank) * CONSUMERS + group; };
        if (piece.begin > 0) {
            leave(own, slot(piece.range), 1 + group);
            return false;
        }
        const unsigned total = cut * k_blocks, tile_end = piece.at - piece.end + k_blocks;
        unsigned range = piece.range;
        for (unsigned at = piece.end < k_blocks ? piece.at : tile_end; at < tile_end; at = Pieces::first_of(range + 1, total)) {
            add(own, slot(++range), 1 + group);
        }
        return true;
    }
};

extern "C" __global__ void __launch_bounds__(THREADS, 1)
gemm(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b, const __grid_constant__ TensorMap map_c,
     unsigned by_copy /* 1: map_c describes C, whose rows and edge are at multiples of 16 bytes */, Out* __restrict__ c /* [m][ldc] */,
     unsigned m, unsigned n, unsigned k, unsigned ldc, unsigned cut /* tiles, in clusters, that are cut; their k blocks fit 32 bits */,
     Exchange exchange, Epilogue epilogue) {
    MARK_BEGIN(gemm);
    __shared__ __align__(8) unsigned long long full_barriers[STAGES], empty_barriers[STAGES];
    const unsigned base = aligned_shared(), rank = rank_in_cluster(), k_blocks = (k + BK - 1) / BK;
    const int group = warpgroup_index();
    const Tiles tiles(m, n);
    Pieces piece(tiles.count(), cut, k_blocks);
    if (threadIdx.x == 0) prefetch(&map_a), prefetch(&map_b);
    const Barriers barriers(full_barriers, empty_barriers);
    unsigned row, column;
    Ring ring;
    // A successor touches no memory, the workspace's included, before this grid has ended: that is what it waits for.
    let_successor_start();

    if (group == CONSUMERS) {
        give_registers<PRODUCER_REGISTERS>();
        // The consumers' stores, partial sums and flags follow these loads, so this wait covers them too.
        wait_for_predecessor();
        barriers.meet();
        if (threadIdx.x % WARPGROUP == 0) {
            while (piece.next(k_blocks)) {
                tiles.at(piece.tile, rank, row, column);
                barriers.fill(ring, base, &map_a, &map_b, row, column, piece.begin, piece.end, rank);
            }
            barriers.drain(ring);
            MARK(end);
        }
    } else {
        take_registers<CONSUMER_REGISTERS>();
        barriers.meet();
        const unsigned a = descriptor(base + group * CHUNK_BYTES, !TRANS_A), b = descriptor(base + A_BYTES, TRANS_B);
        const unsigned buffers = base + STAGES * STAGE_BYTES + group * 2 * CHUNK_BYTES;
        const bool plain = epilogue.is_plain();
        Sums sums;
        // An epilogue that reads C or a mask leaves no registers for a waiting tile.
        if (sizeof(Out) == 2 && by_copy && plain) {
            if constexpr (sizeof(Out) == 2) {
                Packed packed;
                // The position of the waiting tile in one register: row / 64 in the upper half, column / 64 in the lower.
                constexpr unsigned NONE = ~0u;
                unsigned waiting = NONE;
                const unsigned lane_at = lane_in(buffers);
                const auto store_waiting = [&](int chunk) {
                    const int offset = chunk % 2 * CHUNK_BYTES;
                    send<true>(&map_c, c, buffers + offset, 1 + group, waiting / 65536 * 64, waiting % 65536 * 64 + chunk * CHUNK_COLUMNS,
                               m, n, ldc, [&](unsigned) { packed.write(lane_at + offset, chunk); });
                };
                while (piece.next(k_blocks)) {
                    // While the first stages are multiplied, the previous tile is stored, one chunk per stage.
                    barriers.multiply_and<CHUNKS>(ring, a, b, piece.end - piece.begin, sums, [&](int chunk) {
                        if (waiting != NONE) store_waiting(chunk);
                    });
                    waiting = NONE;
                    if (!exchange.complete(sums, piece, cut, k_blocks, rank, group)) continue;
                    tiles.at(piece.tile, rank, row, column);
                    row += group * 64, waiting = row / 64 * 65536 + column / 64;
                    MARK(store);
                    packed.take(sums, epilogue, column, n);
                }
                if (waiting != NONE) {
#pragma unroll
                    for (int chunk = 0; chunk < CHUNKS; ++chunk) store_waiting(chunk);
                }
            }
        } else {
            while (piece.next(k_blocks)) {
                barriers.multiply(ring, a, b, piece.end - piece.begin, sums);
                if (!exchange.complete(sums, piece, cut, k_blocks, rank, group)) continue;
                tiles.at(piece.tile, rank, row, column);
                row += group * 64;
#pragma unroll
                for (int chunk = 0; chunk < CHUNKS; ++chunk) {
                    const auto fill = [&](unsigned to) {
                        if (plain) write<true>(to, sums, chunk, epilogue, c, row, column, m, n, ldc);
                        else write<false>(to, sums, chunk, epilogue, c, row, column, m, n, ldc);
                    };
                    const unsigned buffer = buffers + chunk % 2 * CHUNK_BYTES, from = column + chunk * CHUNK_COLUMNS;
                    if (by_copy) send<true>(&map_c, c, buffer, 1 + group, row, from, m, n, ldc, fill);
                    else send<false>(&map_c, c, buffer, 1 + group, row, from, m, n, ldc, fill);
                }
            }
        }
        // Shared memory must stay allocated until the last stores have read it.
        if (threadIdx.x % WARPGROUP == 0) store_wait_read<0>();
        MARK(end);
    }
}
