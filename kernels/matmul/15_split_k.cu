// Idea: a product with few tiles and a long k leaves SMs idle, so the blocks of a cluster split the k of one tile.
// Formula: C = f(alpha op(A) op(B) + beta C); f16, bf16 or tf32 in, f32 sums; row-major, one tile of BM x BN per cluster.
// Since the last rung: SPLIT blocks each sum a part of k, exchange the partial sums of BN / SPLIT columns and add in a fixed order.
// Needs: the same as 11_wgmma_tma; SPLIT * CLUSTER at most 8; shared memory for the other blocks' partial sums next to the stages.
// Expect: thin shapes read A and B with all SMs; large shapes lose, since most partial sums cross the cluster.
#include "matmul/split_k.cuh"

static_assert(HEIGHT == 1 && !SWAPPED, "taller tiles and the transposed product are in hopper_general.cu");

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
gemm(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b, Out* __restrict__ c /* [m][ldc] */,
     unsigned m, unsigned n, unsigned k, unsigned ldc, Epilogue epilogue) {
    MARK_BEGIN(gemm);
    __shared__ __align__(8) unsigned long long full_barriers[STAGES], empty_barriers[STAGES], received;
    // A cluster computes CLUSTER adjacent tiles, which share loads, with SPLIT blocks each. Blocks with the same part of k have consecutive ranks.
    const unsigned in_cluster = cluster_rank(), rank = in_cluster / CLUSTER, place = in_cluster % CLUSTER;
    const unsigned base = aligned_shared(), k_blocks = (k + BK - 1) / BK;
    unsigned row, column;
    const Tiles tiles = Tiles::at_once(m, n, k_blocks);
    tiles.at(blockIdx.x / (SPLIT * CLUSTER), place, row, column);
    // Computes this block's part of k. If k does not divide evenly, the first parts have one more block of k.
    const unsigned share = k_blocks / SPLIT, more = k_blocks % SPLIT;
    const unsigned begin = rank * share + min(rank, more), end = begin + share + (rank < more ? 1 : 0);
    const int group = warpgroup_index();
    if (threadIdx.x == 0) {
        prefetch(&map_a), prefetch(&map_b);
        barrier_init(&received, 1), barrier_arrive_and_expect(&received, (SPLIT - 1) * SENT_BYTES);
    }
    Barriers barriers(full_barriers, empty_barriers);
    barriers.first_rank = rank * CLUSTER;
    // If no tiles are shared, the other blocks' barriers need not be ready before the partial sums are sent.
    constexpr bool MEETS_LATER = CLUSTER == 1;
    if (MEETS_LATER) cluster_arrive();
    Ring ring;

    if (group == CONSUMERS) {
        give_registers<PRODUCER_REGISTERS>();
        barriers.meet();
        if (threadIdx.x % WARPGROUP == 0) {
            wait_for_predecessor();
            // With a single row of tiles, every part of B is read only once.
            barriers.fill(ring, base, &map_a, &map_b, row, column, begin, end, place, m <= BM);
            let_successor_start();
            barriers.drain(ring);
        }
        __syncwarp();
        if (MEETS_LATER) cluster_wait();
    } else {
        take_registers<CONSUMER_REGISTERS>();
        barriers.meet();
        const unsigned a = descriptor(base + group * CHUNK_BYTES, !TRANS_A), b = descriptor(base + A_BYTES, TRANS_B);
        Sums sums;
        if (end > begin) {
            barriers.multiply(ring, a, b, end - begin, sums);
        } else {
            // With a short k, a block may have nothing to multiply.
#pragma unroll
            for (int i = 0; i < Sums::ALL; ++i) sums.d[i] = 0.0f;
        }
        MARK(barrier);
        if (MEETS_LATER) cluster_wait();
        MARK(exchange);
        float own[PART];
        exchange_parts(sums, own, base, rank, place, &received);
        store_tile(own, base, c, m, n, ldc, row, column, group, rank, epilogue);
    }
    MARK(end);
}
