// Idea: TMA can also store: sums go to shared memory in whole rows, and from there to global memory while the next tile starts.
// Formula: C = f(alpha op(A) op(B) + beta C); f16, bf16 or tf32 in, f32 sums; row-major, tiles of BM x BN.
// Since the last rung: stmatrix and TMA stores of 64 rows of 128 bytes, two in flight, instead of 4-byte stores from registers.
// Needs: the same as 11_wgmma_tma; if C's rows or its edge are not at multiples of 16 bytes, warps store from shared memory.
// Expect: full-line stores; the tensor cores idle only while sums are written to shared memory.
#include "matmul/through_shared.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, 1)
gemm(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b, const __grid_constant__ TensorMap map_c,
     unsigned by_copy /* 1: map_c describes C, whose rows and edge are at multiples of 16 bytes */, Out* __restrict__ c /* [m][ldc] */,
     unsigned m, unsigned n, unsigned k, unsigned ldc, Epilogue epilogue) {
    MARK_BEGIN(gemm);
    __shared__ __align__(8) unsigned long long full_barriers[STAGES], empty_barriers[STAGES];
    const unsigned base = aligned_shared(), rank = rank_in_cluster(), k_blocks = (k + BK - 1) / BK;
    const int group = warpgroup_index();
    const Tiles tiles(m, n);
    if (threadIdx.x == 0) prefetch(&map_a), prefetch(&map_b);
    const Barriers barriers(full_barriers, empty_barriers);
    unsigned row, column;
    Ring ring;

    if (group == CONSUMERS) {
        give_registers<PRODUCER_REGISTERS>();
        // The consumers' stores come after these loads, so this wait covers the stores too.
        wait_for_predecessor();
        barriers.meet();
        if (threadIdx.x % WARPGROUP == 0) {
            for (unsigned tile = blockIdx.x / CLUSTER; tile < tiles.count(); tile += gridDim.x / CLUSTER) {
                tiles.at(tile, rank, row, column);
                barriers.fill(ring, base, &map_a, &map_b, row, column, 0, k_blocks, rank);
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
                for (unsigned tile = blockIdx.x / CLUSTER; tile < tiles.count(); tile += gridDim.x / CLUSTER) {
                    // Stores the previous tile while the first stages are multiplied, one chunk per stage.
                    barriers.multiply_and<CHUNKS>(ring, a, b, k_blocks, sums, [&](int chunk) {
                        if (waiting != NO_TILE) store_waiting(chunk);
                    });
                    tiles.at(tile, rank, row, column);
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
            for (unsigned tile = blockIdx.x / CLUSTER; tile < tiles.count(); tile += gridDim.x / CLUSTER) {
                tiles.at(tile, rank, row, column);
                row += group * 64;
                barriers.multiply(ring, a, b, k_blocks, sums);
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
