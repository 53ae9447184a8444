// Idea: persistent blocks load the next tile while this one is stored, and the blocks of a cluster load shared tiles only once.
// Formula: C = f(alpha op(A) op(B) + beta C); f16, bf16 or tf32 in, f32 sums; row-major, tiles of BM x BN.
// Since the last rung: one block per SM computes many tiles, in an order that reuses L2; B's tiles are multicast to a cluster.
// Needs: the same as 11_wgmma_tma.
// Expect: half the reads of B from L2 and no prologue between tiles; the consumers still stall on their stores.
#include "matmul/persistent.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, 1)
gemm(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b, Out* __restrict__ c /* [m][ldc] */,
     unsigned m, unsigned n, unsigned k, unsigned ldc, Epilogue epilogue) {
    MARK_BEGIN(gemm);
    __shared__ __align__(8) unsigned long long full_barriers[STAGES], empty_barriers[STAGES];
    const unsigned base = aligned_shared(), rank = rank_in_cluster(), k_blocks = (k + BK - 1) / BK;
    const int group = warpgroup_index();
    const Tiles tiles(m, n);
    const Barriers barriers(full_barriers, empty_barriers);
    unsigned row, column;
    Ring ring;

    if (group == CONSUMERS) {
        give_registers<PRODUCER_REGISTERS>();
        barriers.meet();
        if (threadIdx.x % WARPGROUP == 0) {
            for (unsigned tile = blockIdx.x / CLUSTER; tile < tiles.count(); tile += gridDim.x / CLUSTER) {
                tiles.at(tile, rank, row, column);
                barriers.fill(ring, base, &map_a, &map_b, row, column, 0, k_blocks, rank);
            }
            barriers.drain(ring);
            MARK(end);
        }
    } else {
        take_registers<CONSUMER_REGISTERS>();
        barriers.meet();
        const unsigned a = descriptor(base + group * CHUNK_BYTES, !TRANS_A), b = descriptor(base + A_BYTES, TRANS_B);
        Sums sums;
        for (unsigned tile = blockIdx.x / CLUSTER; tile < tiles.count(); tile += gridDim.x / CLUSTER) {
            tiles.at(tile, rank, row, column);
            barriers.multiply(ring, a, b, k_blocks, sums);
            MARK(store);
            sums.store(c, m, n, ldc, row + group * 64, column, epilogue);
        }
        MARK(end);
    }
}
