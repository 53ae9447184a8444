// Idea: a copy engine fetches whole tiles, and 128 threads together multiply them straight from shared memory.
// Formula: C = f(alpha op(A) op(B) + beta C); f16, bf16 or tf32 in, f32 sums; row-major, a tile of BM x BN a block.
// Since the last rung: mma.sync on registers became wgmma on shared memory, and cp.async by every thread became TMA by one.
// Needs: sm_90a; A and B 16-byte aligned with rows of a multiple of 16 bytes; tf32: op(A) and op(B)^T stored along k.
// Expect: no address arithmetic and no fragments to load; the tensor cores still wait whenever all threads wait for a stage.
#include "matmul/hopper.cuh"

static_assert(THREADS == BM / 64 * WARPGROUP, "a warpgroup for every 64 rows");
static_assert(STAGES >= 2, "one stage is multiplied while another is fetched");

extern "C" __global__ void __launch_bounds__(THREADS, 1)
gemm(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b, Out* __restrict__ c /* [m][ldc] */,
     unsigned m, unsigned n, unsigned k, unsigned ldc, Finish finish) {
    __shared__ __align__(8) unsigned long long full_barriers[STAGES];
    const unsigned base = aligned_shared(), full = shared_address(full_barriers);
    const unsigned tiles_n = (n + BN - 1) / BN, k_blocks = (k + BK - 1) / BK;
    const unsigned row = blockIdx.x / tiles_n * BM, column = blockIdx.x % tiles_n * BN;
    const int group = warpgroup_index();
    const bool leader = threadIdx.x == 0;
    if (leader) {
        for (int s = 0; s < STAGES; ++s) barrier_init(&full_barriers[s], 1);
        barrier_init_done();
    }
    __syncthreads();

    const auto fetch = [&](unsigned block) {
        const unsigned stage = block % STAGES, barrier = full + stage * 8, to = base + stage * STAGE_BYTES;
        expect_bytes(barrier, STAGE_BYTES);
        load_a(to, &map_a, row, block * BK, barrier);
        load_b(to + A_BYTES, &map_b, column, block * BK, barrier);
    };
    if (leader) {
        for (unsigned block = 0; block < min(STAGES - 1u, k_blocks); ++block) fetch(block);
    }

    const unsigned a = descriptor(base + group * CHUNK_BYTES, !TRANS_A), b = descriptor(base + A_BYTES, TRANS_B);
    Sums sums;
    Ring ring;
    for (unsigned block = 0; block < k_blocks; ++block) {
        wait_phase(full + ring.stage * 8, ring.parity);
        sums.multiply(a + ring.stage * (STAGE_BYTES / 16), b + ring.stage * (STAGE_BYTES / 16), block > 0);
        sums.wait<0>();
        // Everybody is done with this stage: the next one to be fetched goes to where the one before it was.
        __syncthreads();
        if (leader && block + STAGES - 1 < k_blocks) fetch(block + STAGES - 1);
        ring.advance();
    }
    sums.hold();
    sums.store(c, m, n, ldc, row + group * 64, column, finish);
}
