// Idea: each thread computes TM elements of a column, so that an element of B in a register is used for TM FMAs.
// Formula: C = f(alpha op(A) op(B) + beta C), row-major with leading dimensions; A and B of type IN, C of type OUT, sums in f32.
// Since the last rung: TM sums per thread instead of one, so the tile is TM times taller; a smaller BK, to fit in shared memory.
// Needs: any sizes, leading dimensions and alignment; A and B transposed or not.
// Expect: TM + 1 shared-memory loads for TM FMAs instead of 2 TM, most of them broadcasts of one word to a whole warp.
#include "matmul/cuda_cores.cuh"

static_assert(BM * BN == TM * THREADS, "TM elements of the tile for each thread");
static_assert(BM % TM == 0, "the threads divide a column of the tile evenly");
// Padding of a row: lanes that store adjacent k of an operand write to different banks.
constexpr int PAD = 32 / BK;
constexpr int ROWS_APART = BM / TM;

extern "C" __global__ void __launch_bounds__(THREADS)
gemm(const In* __restrict__ a /* [m][lda], or [k][lda] transposed */, const In* __restrict__ b /* [k][ldb], or [n][ldb] transposed */,
     Out* __restrict__ c /* [m][ldc] */, unsigned m, unsigned n, unsigned k, unsigned lda, unsigned ldb, unsigned ldc, Epilogue epilogue) {
    __shared__ float tile_a[BK][BM + PAD], tile_b[BK][BN + PAD];
    const unsigned tiles_n = (n + BN - 1) / BN;
    const unsigned row0 = blockIdx.x / tiles_n * BM, column0 = blockIdx.x % tiles_n * BN;
    const unsigned row = threadIdx.x / BN, column = threadIdx.x % BN;
    const Operand<!TRANS_A, BM> op_a{a, m, k, lda};
    const Operand<TRANS_B, BN> op_b{b, n, k, ldb};

    float sums[TM] = {};
    for (unsigned k0 = 0; k0 < k; k0 += BK) {
        op_a.load(tile_a, row0, k0);
        op_b.load(tile_b, column0, k0);
        __syncthreads();
#pragma unroll
        for (int kk = 0; kk < BK; ++kk) {
            const float fragment_b = tile_b[kk][column];
#pragma unroll
            for (int i = 0; i < TM; ++i) sums[i] = fmaf(tile_a[kk][row + i * ROWS_APART], fragment_b, sums[i]);
        }
        // All threads must have read these tiles before the next ones overwrite them.
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < TM; ++i) {
        const unsigned at = row0 + row + i * ROWS_APART;
        if (at >= m) continue;
        if (column0 + column < n) epilogue.store(c, at, column0 + column, ldc, sums[i]);
    }
}
