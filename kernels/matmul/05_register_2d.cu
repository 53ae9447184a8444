// Idea: each thread computes TM x TN elements from TM elements of A and TN of B in registers: an outer product for each k.
// Formula: C = f(alpha op(A) op(B) + beta C), row-major with leading dimensions; A and B of type IN, C of type OUT, sums in f32.
// Since the last rung: TN columns per thread instead of one, so the tile is wider; an element of A is also used for TN FMAs.
// Needs: any sizes, leading dimensions and alignment; A and B transposed or not.
// Expect: TM + TN shared-memory loads for TM x TN FMAs; for the first time there are more FMAs than loads.
#include "matmul/cuda_cores.cuh"

static_assert(BM * BN == TM * TN * THREADS, "TM x TN elements of the tile for each thread");
static_assert(BM % TM == 0 && BN % TN == 0, "the threads divide the tile evenly");
// Padding of a row: lanes that store adjacent k of an operand write to different banks.
constexpr int PAD = 32 / BK;
constexpr int ROWS_APART = BM / TM, COLUMNS_APART = BN / TN;

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
gemm(const In* __restrict__ a /* [m][lda], or [k][lda] transposed */, const In* __restrict__ b /* [k][ldb], or [n][ldb] transposed */,
     Out* __restrict__ c /* [m][ldc] */, unsigned m, unsigned n, unsigned k, unsigned lda, unsigned ldb, unsigned ldc, Epilogue epilogue) {
    __shared__ float tile_a[BK][BM + PAD], tile_b[BK][BN + PAD];
    const unsigned tiles_n = (n + BN - 1) / BN;
    const unsigned row0 = blockIdx.x / tiles_n * BM, column0 = blockIdx.x % tiles_n * BN;
    const unsigned row = threadIdx.x / COLUMNS_APART, column = threadIdx.x % COLUMNS_APART;
    const Operand<!TRANS_A, BM> op_a{a, m, k, lda};
    const Operand<TRANS_B, BN> op_b{b, n, k, ldb};

    float sums[TM][TN] = {}, fragment_a[TM], fragment_b[TN];
    for (unsigned k0 = 0; k0 < k; k0 += BK) {
        op_a.load(tile_a, row0, k0);
        op_b.load(tile_b, column0, k0);
        __syncthreads();
#pragma unroll
        for (int kk = 0; kk < BK; ++kk) {
#pragma unroll
            for (int i = 0; i < TM; ++i) fragment_a[i] = tile_a[kk][row + i * ROWS_APART];
#pragma unroll
            for (int j = 0; j < TN; ++j) fragment_b[j] = tile_b[kk][column + j * COLUMNS_APART];
            multiply(sums, fragment_a, fragment_b);
        }
        // All threads must have read these tiles before the next ones overwrite them.
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < TM; ++i) {
        const unsigned at = row0 + row + i * ROWS_APART;
        if (at >= m) continue;
#pragma unroll
        for (int j = 0; j < TN; ++j) {
            const unsigned to = column0 + column + j * COLUMNS_APART;
            if (to < n) epilogue.store(c, at, to, ldc, sums[i][j]);
        }
    }
}
