// Idea: a product with few tiles and a long k leaves multiprocessors idle: the blocks of a cluster share the k of one tile.
// Formula: C = f(alpha op(A) op(B) + beta C); f16, bf16 or tf32 in, f32 sums; row-major, a tile of BM x BN a cluster.
// Since the last rung: SPLIT blocks each sum a part of k, and add up through distributed shared memory, always in the same order.
// Needs: as 11_wgmma_tma; SPLIT of at most 8; a tile of sums fits where the stages were.
// Expect: thin shapes read A and B with the whole chip; large ones gain nothing, as the sums go through shared memory once more.
#define CLUSTER 1
#include "matmul/persistent.cuh"

constexpr int PIECES = BN / 4;  // Of a row of sums, 16 bytes each.
static_assert(BM * BN * 4 <= STAGES * STAGE_BYTES, "the sums lie where the stages were");
static_assert(SPLIT <= 8, "larger clusters are not on every chip");

// Where a piece of a row of sums lies: permuted, so that the rows of a warp fall into different banks.
__device__ __forceinline__ unsigned place(unsigned row, unsigned piece) { return (row * PIECES + (piece ^ row % 8)) * 16; }

__device__ __forceinline__ float4 load_from(unsigned address, unsigned rank) {
    float4 v;
    asm volatile("{\n.reg .b32 theirs;\nmapa.shared::cluster.u32 theirs, %4, %5;\n"
                 "ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [theirs];\n}"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "r"(address), "r"(rank) : "memory");
    return v;
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
gemm(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b, Out* __restrict__ c /* [m][ldc] */,
     unsigned m, unsigned n, unsigned k, unsigned ldc, Finish finish) {
    __shared__ __align__(8) unsigned long long full_barriers[STAGES], empty_barriers[STAGES];
    const unsigned base = aligned_shared(), rank = SPLIT > 1 ? cluster_rank() : 0, k_blocks = (k + BK - 1) / BK;
    const unsigned tiles_n = (n + BN - 1) / BN, tile = blockIdx.x / SPLIT;
    const unsigned row = tile / tiles_n * BM, column = tile % tiles_n * BN;
    // The first blocks have one more where it does not come out even.
    const unsigned share = k_blocks / SPLIT, more = k_blocks % SPLIT;
    const unsigned first = rank * share + min(rank, more), end = first + share + (rank < more ? 1 : 0);
    const int group = warpgroup_index();
    if (threadIdx.x == 0) prefetch(&map_a), prefetch(&map_b);
    const Barriers barriers(full_barriers, empty_barriers);
    Ring ring;
    let_successor_start();

    if (group == CONSUMERS) {
        give_registers<PRODUCER_REGISTERS>();
        if (threadIdx.x % WARPGROUP == 0) {
            wait_for_predecessor();
            barriers.fill(ring, base, &map_a, &map_b, row, column, first, end, 0);
        }
        __syncwarp();
        if (SPLIT > 1) cluster_sync(), cluster_sync();
    } else {
        take_registers<CONSUMER_REGISTERS>();
        const unsigned a = descriptor(base + group * CHUNK_BYTES, !TRANS_A), b = descriptor(base + A_BYTES, TRANS_B);
        Sums sums;
        // A short k may leave a block without a share.
        const bool any = end > first;
        if (any) barriers.multiply(ring, a, b, end - first, sums);
        if (SPLIT == 1) {
            sums.store(c, m, n, ldc, row + group * 64, column, finish);
            return;
        }
        // All consumers have read all stages: the sums may go to where those were.
        asm volatile("bar.sync 1, %0;" ::"n"(CONSUMERS * WARPGROUP) : "memory");
        const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
        for (int j = 0; j < BN / 8; ++j) {
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                const unsigned r = 16 * warp + lane / 4 + 8 * h, piece = 2 * j + lane % 4 / 2;
                asm volatile("st.shared.v2.f32 [%0], {%1, %2};"
                             ::"r"(base + place(r, piece) + lane % 2 * 8), "f"(any ? sums.d[4 * j + 2 * h] : 0.0f),
                             "f"(any ? sums.d[4 * j + 2 * h + 1] : 0.0f) : "memory");
            }
        }
        cluster_sync();
        // The blocks finish pieces in turn.
        const bool quick = finish.is_plain() && Finish::in_pairs(c, n, ldc);
        for (unsigned i = rank * CONSUMERS * WARPGROUP + threadIdx.x; i < BM * PIECES; i += SPLIT * CONSUMERS * WARPGROUP) {
            const unsigned r = i / PIECES, piece = i % PIECES, at = column + piece * 4;
            float4 parts[SPLIT];
#pragma unroll
            for (int s = 0; s < SPLIT; ++s) parts[s] = load_from(base + place(r, piece), s);
            float sum[4] = {parts[0].x, parts[0].y, parts[0].z, parts[0].w};
#pragma unroll
            for (int s = 1; s < SPLIT; ++s) sum[0] += parts[s].x, sum[1] += parts[s].y, sum[2] += parts[s].z, sum[3] += parts[s].w;
            if (row + r >= m) continue;
#pragma unroll
            for (unsigned pair = 0; pair < 4; pair += 2) {
                if (quick) {
                    if (at + pair < n) {
                        store_word(c + (size_t)(row + r) * ldc + at + pair, finish.plain(sum[pair], at + pair),
                                   finish.plain(sum[pair + 1], at + pair + 1));
                    }
                } else {
                    if (at + pair < n) finish.store(c, row + r, at + pair, ldc, sum[pair]);
                    if (at + pair + 1 < n) finish.store(c, row + r, at + pair + 1, ldc, sum[pair + 1]);
                }
            }
        }
        // Nobody leaves while others read its sums.
        cluster_sync();
    }
}
