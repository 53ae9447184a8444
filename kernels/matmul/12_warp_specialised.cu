// Idea: warp specialisation: one warpgroup only loads, the others only multiply, so that neither side waits for the other's instructions.
// Formula: C = f(alpha op(A) op(B) + beta C); f16, bf16 or tf32 in, f32 sums; row-major, one tile of BM x BN per block.
// Since the last rung: a producer and consumers with two barriers per stage, full and empty; the producer gives up registers.
// Needs: the same as 11_wgmma_tma.
// Expect: the next wgmma is always queued; with registers for 64 x 256 sums per consumer, wider tiles halve the reads of A.
#include "matmul/hopper.cuh"

constexpr int CONSUMERS = BM / 64;
static_assert(THREADS == (CONSUMERS + 1) * WARPGROUP, "one consumer for every 64 rows, and a producer");

extern "C" __global__ void __launch_bounds__(THREADS, 1)
gemm(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b, Out* __restrict__ c /* [m][ldc] */,
     unsigned m, unsigned n, unsigned k, unsigned ldc, Epilogue epilogue) {
    MARK_BEGIN(gemm);
    __shared__ __align__(8) unsigned long long full_barriers[STAGES], empty_barriers[STAGES];
    const unsigned base = aligned_shared(), full = shared_address(full_barriers), empty = shared_address(empty_barriers);
    const unsigned tiles_n = (n + BN - 1) / BN, k_blocks = (k + BK - 1) / BK;
    const unsigned row = blockIdx.x / tiles_n * BM, column = blockIdx.x % tiles_n * BN;
    const int group = warpgroup_index();
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) barrier_init(&full_barriers[s], 1), barrier_init(&empty_barriers[s], CONSUMERS);
        barrier_init_done();
    }
    __syncthreads();

    Ring ring;
    if (group == CONSUMERS) {
        give_registers<PRODUCER_REGISTERS>();
        if (threadIdx.x % WARPGROUP == 0) {
            for (unsigned block = 0; block < k_blocks; ++block) {
                const unsigned barrier = full + ring.stage * 8, to = base + ring.stage * STAGE_BYTES;
                MARK(wait);
                // In the first round every stage is empty: the phase before the first counts as complete.
                wait_phase(empty + ring.stage * 8, ring.parity ^ 1);
                MARK(load);
                expect_bytes(barrier, STAGE_BYTES);
                load_a(to, &map_a, row, block * BK, barrier);
                load_b(to + A_BYTES, &map_b, column, block * BK, barrier);
                ring.advance();
            }
        }
    } else {
        take_registers<CONSUMER_REGISTERS>();
        const unsigned a = descriptor(base + group * CHUNK_BYTES, !TRANS_A), b = descriptor(base + A_BYTES, TRANS_B);
        const bool leader = threadIdx.x % WARPGROUP == 0;
        Sums sums;
        unsigned last = 0;
        for (unsigned block = 0; block < k_blocks; ++block) {
            MARK(wait);
            wait_phase(full + ring.stage * 8, ring.parity);
            MARK(multiply);
            sums.multiply(a + ring.stage * (STAGE_BYTES / 16), b + ring.stage * (STAGE_BYTES / 16), block > 0);
            // One stage stays in flight; the stage before it has been read.
            sums.wait<1>();
            if (leader && block > 0) arrive(empty + last * 8);
            last = ring.stage;
            ring.advance();
        }
        sums.wait<0>();
        sums.hold();
        MARK(store);
        sums.store(c, m, n, ldc, row + group * 64, column, epilogue);
    }
    MARK(end);
}
