// Idea: the last wave of tiles leaves SMs idle, so its tiles are cut along k and every SM gets the same number of k blocks of them.
// Formula: C = f(alpha op(A) op(B) + beta C); f16, bf16 or tf32 in, f32 sums; row-major, tiles of BM x BN.
// Since the last rung: the last tiles of 14 are cut; the block with a tile's first k adds the partial sums that others left in the workspace.
// Needs: the same as 14_overlapped_store, and a workspace for the partial sums of one tile per block; all blocks resident at once.
// Expect: the last wave takes only its share of the time, plus an exchange through L2; nothing is gained if all waves are full anyway.
//
// Reference: Osama et al., Stream-K: Work-centric Parallel Decomposition for Dense Matrix-Matrix Multiplication on the GPU, 2023.
#include "matmul/through_shared.cuh"

constexpr int VECTORS = WIDTH / 8;  // Number of float4 that hold a thread's sums.

// A piece of a cluster's work: a tile and a range of its k blocks. The piece with a tile's first k block adds the partial sums that `others`
// other ranges left for the tile. A piece without blocks ends the list.
struct Piece { unsigned tile, begin, blocks, others; };
constexpr int MOST_PIECES = 3;  // Maximum number of pieces in a range, since a range is shorter than two tiles.

// The work of a cluster: whole tiles, dealt round-robin to the clusters, then the cluster's range of the k blocks of the last tiles, which
// are cut. Ranges differ by at most one k block. Only the first piece of a range can begin in the middle of a tile; its sums are left to
// another cluster before this cluster waits for anything. A cluster waits only for later ranges, which belong to clusters with lower
// indices, and those become resident first.
struct Pieces {
    unsigned table;  // The pieces of the range, in shared memory: consumers have no registers to spare.
    unsigned first_cut, k_blocks;

    // All threads call this constructor before a __syncthreads.
    __device__ __forceinline__ Pieces(Piece* pieces /* [MOST_PIECES + 1], aligned to 16 bytes */, unsigned count, unsigned cut, unsigned k_blocks)
        : table(shared_address(pieces)), first_cut(count - cut), k_blocks(k_blocks) {
        if (threadIdx.x > 0) return;
        const unsigned total = cut * k_blocks, share = total / clusters(), more = total % clusters(), longer = more * (share + 1);
        unsigned at = range() * share + min(range(), more), left = share + (range() < more ? 1 : 0);
        for (int i = 0; i <= MOST_PIECES; ++i) {
            const unsigned begin = at % k_blocks, blocks = min(left, k_blocks - begin), last = at - begin + k_blocks - 1;
            const unsigned range_of_last = last < longer ? last / (share + 1) : more + (last - longer) / max(share, 1u);
            pieces[i] = Piece{first_cut + at / k_blocks, begin, blocks, begin == 0 && blocks > 0 ? range_of_last - range() : 0};
            at += blocks, left -= blocks;
        }
    }

    __device__ __forceinline__ static unsigned clusters() { return gridDim.x / CLUSTER; }
    __device__ __forceinline__ static unsigned cluster() { return blockIdx.x / CLUSTER; }
    __device__ __forceinline__ static unsigned range() { return clusters() - 1 - cluster(); }

    // The turn of a cluster's first piece; turns are clusters() apart. The turn of a whole tile is the tile's index; the turns after the whole tiles are
    // the pieces of the range.
    __device__ __forceinline__ unsigned blocks(unsigned turn) const { return turn < first_cut ? k_blocks : cut_word<2>(turn); }
    __device__ __forceinline__ unsigned tile(unsigned turn) const { return turn < first_cut ? turn : cut_word<0>(turn); }
    __device__ __forceinline__ unsigned begin(unsigned turn) const { return turn < first_cut ? 0 : cut_word<1>(turn); }
    __device__ __forceinline__ unsigned others(unsigned turn) const { return turn < first_cut ? 0 : cut_word<3>(turn); }

    template <int WORD>
    __device__ __forceinline__ unsigned cut_word(unsigned turn) const {
        unsigned word;
        const unsigned from = table + (turn - first_cut) / clusters() * (unsigned)sizeof(Piece) + WORD * 4;
        asm volatile("ld.shared.b32 %0, [%1];" : "=r"(word) : "r"(from) : "memory");
        return word;
    }
};

// The workspace: the partial sums that each block leaves for the tile in which its range begins, and a flag for each of its warpgroups. A flag is
// up while it equals the plan's ticket, since other plans may leave any value here. The reader takes the flag down again.
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

    // Completes the sums of a piece's tile: leaves them to another block, or adds the sums that other blocks left, in the order of k. Returns
    // true if the sums are complete.
    __device__ __forceinline__ bool complete(Sums& own, unsigned begin, unsigned others, unsigned rank, int group) const {
        const unsigned slot = (Pieces::range() * CLUSTER + rank) * CONSUMERS + group;
        if (begin > 0) leave(own, slot, 1 + group);
#pragma unroll 1
        for (unsigned other = 1; other <= others; ++other) add(own, slot + other * (CLUSTER * CONSUMERS), 1 + group);
        return begin == 0;
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
    __shared__ __align__(16) Piece range_pieces[MOST_PIECES + 1];
    const Pieces pieces(range_pieces, tiles.count(), cut, k_blocks);
    if (threadIdx.x == 0) prefetch(&map_a), prefetch(&map_b);
    const Barriers barriers(full_barriers, empty_barriers);
    unsigned row, column;
    Ring ring;

    if (group == CONSUMERS) {
        give_registers<PRODUCER_REGISTERS>();
        // The consumers' stores, partial sums and flags come after these loads, so this wait covers all of them.
        wait_for_predecessor();
        barriers.meet();
        if (threadIdx.x % WARPGROUP == 0) {
            for (unsigned turn = Pieces::cluster();; turn += Pieces::clusters()) {
                const unsigned begin = pieces.begin(turn), blocks = pieces.blocks(turn);
                if (blocks == 0) break;
                tiles.at(pieces.tile(turn), rank, row, column);
                barriers.fill(ring, base, &map_a, &map_b, row, column, begin, begin + blocks, rank);
            }
            let_successor_start();
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
        // An epilogue that reads C or a mask leaves no registers for a tile that waits to be stored.
        if (sizeof(Out) == 2 && by_copy && plain) {
            if constexpr (sizeof(Out) == 2) {
                Packed packed;
                unsigned waiting = NO_TILE;
                const unsigned lane_at = lane_in(buffers);
                const auto store_waiting = [&](int chunk) {
                    store_packed(packed, waiting, chunk, &map_c, c, buffers, lane_at, 1 + group, m, n, ldc);
                };
                for (unsigned turn = Pieces::cluster();; turn += Pieces::clusters()) {
                    const unsigned blocks = pieces.blocks(turn);
                    if (blocks == 0) break;
                    // Stores the previous tile while the first stages are multiplied, one chunk per stage.
                    barriers.multiply_and<CHUNKS>(ring, a, b, blocks, sums, [&](int chunk) {
                        if (waiting != NO_TILE) store_waiting(chunk);
                    });
                    waiting = NO_TILE;
                    if (!exchange.complete(sums, pieces.begin(turn), pieces.others(turn), rank, group)) continue;
                    tiles.at(pieces.tile(turn), rank, row, column);
                    row += group * 64, waiting = packed_position(row, column);
                    MARK(store);
                    packed.take(sums, epilogue, column, n);
                }
                if (waiting != NO_TILE) {
#pragma unroll
                    for (int chunk = 0; chunk < CHUNKS; ++chunk) store_waiting(chunk);
                }
            }
        } else {
            for (unsigned turn = Pieces::cluster();; turn += Pieces::clusters()) {
                const unsigned blocks = pieces.blocks(turn);
                if (blocks == 0) break;
                barriers.multiply(ring, a, b, blocks, sums);
                if (!exchange.complete(sums, pieces.begin(turn), pieces.others(turn), rank, group)) continue;
                tiles.at(pieces.tile(turn), rank, row, column);
                row += group * 64;
#pragma unroll
                for (int chunk = 0; chunk < CHUNKS; ++chunk) {
                    const auto fill = [&](unsigned to) { write(to, sums, chunk, epilogue, plain, c, row, column, m, n, ldc); };
                    const unsigned buffer = buffers + chunk % 2 * CHUNK_BYTES, from = column + chunk * CHUNK_COLUMNS;
                    if (by_copy) send<true>(&map_c, c, buffer, 1 + group, row, from, m, n, ldc, fill);
                    else send<false>(&map_c, c, buffer, 1 + group, row, from, m, n, ldc, fill);
                }
            }
        }
        // Shared memory must stay allocated until the last TMA stores have read from it, so the block must not exit earlier.
        if (threadIdx.x % WARPGROUP == 0) store_wait_read<0>();
        MARK(end);
    }
}
