// Idea: what a warp reads at once should be few numbers for many lanes: its lanes share a compact WM x WN part of the tile.
// Formula: C = f(alpha op(A) op(B) + beta C), row-major with leading dimensions; A and B of type IN, C of type OUT, sums in f32.
// Since the last rung: the threads of a warp lie on a rectangle instead of on a strip as wide as the tile.
// Needs: any sizes; fours of A, B or C only where its base and leading dimension are multiples of them, else one by one.
// Expect: shared memory gives a word to all lanes that ask for it at once; fewer distinct ones are fewer passes a fragment.
#include "matmul/cuda_cores.cuh"

static_assert(BM * BN == TM * TN * THREADS, "TM x TN elements of the tile for each thread");
static_assert(BM % WM == 0 && BN % WN == 0 && WM * WN == 32 * TM * TN, "a warp's part of the tile for each warp");
static_assert(WM / TM % 2 == 0 && WN % TN == 0, "lanes go by pairs of rows");
// Lanes that bring neighbouring k of an operand write to different banks, and rows stay 16-byte aligned.
constexpr int PAD = 4;
constexpr int ROWS_APART = 4 * WM / TM, COLUMNS_APART = 4 * WN / TN;

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
gemm(const In* __restrict__ a /* [m][lda], or [k][lda] transposed */, const In* __restrict__ b /* [k][ldb], or [n][ldb] transposed */,
     Out* __restrict__ c /* [m][ldc] */, unsigned m, unsigned n, unsigned k, unsigned lda, unsigned ldb, unsigned ldc, Finish finish) {
    __shared__ alignas(16) float tile_a[BK][BM + PAD], tile_b[BK][BN + PAD];
    const unsigned tiles_n = (n + BN - 1) / BN;
    const unsigned row0 = blockIdx.x / tiles_n * BM, column0 = blockIdx.x % tiles_n * BN;
    // Lanes 0 and 1 are above each other, 2 and 3 beside them: among any four neighbours of a warp each number is asked for twice.
    const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32, across = WN / TN;
    const unsigned row = warp / (BN / WN) * WM + (lane / 2 / across * 2 + lane % 2) * 4;
    const unsigned column = warp % (BN / WN) * WN + lane / 2 % across * 4;
    const Operand<!TRANS_A, BM> op_a{a, m, k, lda};
    const Operand<TRANS_B, BN> op_b{b, n, k, ldb};

    float sums[TM][TN] = {}, fragment_a[TM], fragment_b[TN];
    for (unsigned k0 = 0; k0 < k; k0 += BK) {
        op_a.load_fours(tile_a, row0, k0);
        op_b.load_fours(tile_b, column0, k0);
        __syncthreads();
#pragma unroll
        for (int kk = 0; kk < BK; ++kk) {
            read_fragment<ROWS_APART>(fragment_a, &tile_a[kk][row]);
            read_fragment<COLUMNS_APART>(fragment_b, &tile_b[kk][column]);
            multiply(sums, fragment_a, fragment_b);
        }
        // The next tiles take the place of these.
        __syncthreads();
    }
    store_fours<ROWS_APART, COLUMNS_APART>(finish, c, row0 + row, column0 + column, m, n, ldc, sums);
}
