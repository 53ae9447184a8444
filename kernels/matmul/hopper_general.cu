// Idea: one kernel for products to which persistent blocks are poorly suited: few tiles, small tiles, thin matrices, a long k.
// Formula: C = f(alpha op(A) op(B) + beta C); f16, bf16 or tf32 in, f32 sums; row-major, one tile of BM x BN per SPLIT blocks.
// Since the last rung: 15_split_k that also allows an unsplit k (SPLIT = 1), taller tiles (HEIGHT), C^T = B^T A^T (SWAPPED), parts of k over gridDim.y.
// Needs: the same as 15_split_k; SWAPPED: 16-bit types; parts over gridDim.y: a workspace, and sum_parts.cu, which adds the parts.
// Expect: small tiles give every SM work where 128 x 128 would leave some idle; with many tiles, A and B are read from L2 more often.
#include "matmul/split_k.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
gemm(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b, Out* __restrict__ c /* [gridDim.y][m][ldc] */,
     unsigned m, unsigned n, unsigned k, unsigned ldc, Epilogue epilogue) {
    MARK_BEGIN(gemm);
    __shared__ __align__(8) unsigned long long full_barriers[STAGES], empty_barriers[STAGES], received;
    // A cluster computes CLUSTER adjacent tiles, which share loads, with SPLIT blocks each. Blocks with the same part of k have consecutive ranks.
    const unsigned in_cluster = SPLIT * CLUSTER > 1 ? cluster_rank() : 0, rank = in_cluster / CLUSTER, place = in_cluster % CLUSTER;
    const unsigned base = aligned_shared(), k_blocks = (k + BK - 1) / BK;
    unsigned row, column;
    const Tiles tiles = Tiles::at_once(m, n, k_blocks);
    tiles.at(blockIdx.x / (SPLIT * CLUSTER), place, row, column);
    // A grid with several blocks in y splits k once more, and each y index has its own matrix of partial sums.
    const unsigned parts = SPLIT * gridDim.y, part_of_k = blockIdx.y * SPLIT + rank;
    c += (size_t)blockIdx.y * m * ldc;
    // If k does not divide evenly, the first parts have one more block of k.
    const unsigned share = k_blocks / parts, more = k_blocks % parts;
    const unsigned begin = part_of_k * share + min(part_of_k, more), end = begin + share + (part_of_k < more ? 1 : 0);
    const int group = warpgroup_index();
    if (threadIdx.x == 0) {
        prefetch(&map_a), prefetch(&map_b);
        if (SPLIT > 1) barrier_init(&received, 1), barrier_arrive_and_expect(&received, (SPLIT - 1) * SENT_BYTES);
    }
    Barriers barriers(full_barriers, empty_barriers);
    barriers.first_rank = rank * CLUSTER;
    // If no tiles are shared, the other blocks' barriers need not be ready before the partial sums are sent.
    constexpr bool MEETS_LATER = SPLIT > 1 && CLUSTER == 1;
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
        const int own_rows = group * HEIGHT * CHUNK_BYTES;
        const unsigned a = descriptor(base + (SWAPPED ? 0 : own_rows), !TRANS_A);
        const unsigned b = descriptor(base + A_BYTES + (SWAPPED ? own_rows : 0), TRANS_B);
        const unsigned first = SWAPPED ? b : a, second = SWAPPED ? a : b;
        Sums sums;
        if (end > begin) {
            barriers.multiply(ring, first, second, end - begin, sums);
        } else {
            // With a short k, a block may have nothing to multiply.
#pragma unroll
            for (int i = 0; i < Sums::ALL; ++i) sums.d[i] = 0.0f;
        }
        MARK(store);
        if constexpr (SPLIT == 1) {
#pragma unroll
            for (int i = 0; i < HEIGHT; ++i) store_tile(sums.of(i), base, c, m, n, ldc, row, column, group * HEIGHT + i, 0, epilogue);
        } else {
            MARK(barrier);
            if (MEETS_LATER) cluster_wait();
            MARK(exchange);
            float own[PART];
            exchange_parts(sums, own, base, rank, place, &received);
            store_tile(own, base, c, m, n, ldc, row, column, group, rank, epilogue);
        }
    }
    MARK(end);
}
