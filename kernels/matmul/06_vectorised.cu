// Idea: one load or store instruction can move 16 bytes per thread instead of 4, so every access is a vector of four.
// Formula: C = f(alpha op(A) op(B) + beta C), row-major with leading dimensions; A and B of type IN, C of type OUT, sums in f32.
// Since the last rung: tiles, fragments and C are accessed in vectors of four; a thread's rows and columns come in groups of four.
// Needs: any sizes; vectors only for a matrix whose base and leading dimension are multiples of four elements, otherwise scalar access.
// Expect: a quarter of the load and store instructions, which compete with FMAs for issue slots.
#include "matmul/cuda_cores.cuh"

static_assert(BM * BN == TM * TN * THREADS, "TM x TN elements of the tile for each thread");
static_assert(BM % TM == 0 && BN % TN == 0, "the threads divide the tile evenly");
// Padding of a row: lanes that store adjacent k of an operand write to different banks, and rows stay 16-byte aligned.
constexpr int PAD = 4;
constexpr int ROWS_APART = 4 * BM / TM, COLUMNS_APART = 4 * BN / TN;

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
gemm(const In* __restrict__ a /* [m][lda], or [k][lda] transposed */, const In* __restrict__ b /* [k][ldb], or [n][ldb] transposed */,
     Out* __restrict__ c /* [m][ldc] */, unsigned m, unsigned n, unsigned k, unsigned lda, unsigned ldb, unsigned ldc, Epilogue epilogue) {
    __shared__ alignas(16) float tile_a[BK][BM + PAD], tile_b[BK][BN + PAD];
    const unsigned tiles_n = (n + BN - 1) / BN;
    const unsigned row0 = blockIdx.x / tiles_n * BM, column0 = blockIdx.x % tiles_n * BN;
    const unsigned row = threadIdx.x / (BN / TN) * 4, column = threadIdx.x % (BN / TN) * 4;
    const Operand<!TRANS_A, BM> op_a{a, m, k, lda};
    const Operand<TRANS_B, BN> op_b{b, n, k, ldb};

    float sums[TM][TN] = {}, fragment_a[TM], fragment_b[TN];
    for (unsigned k0 = 0; k0 < k; k0 += BK) {
        op_a.load_vec4(tile_a, row0, k0);
        op_b.load_vec4(tile_b, column0, k0);
        __syncthreads();
#pragma unroll
        for (int kk = 0; kk < BK; ++kk) {
            read_fragment<ROWS_APART>(fragment_a, &tile_a[kk][row]);
            read_fragment<COLUMNS_APART>(fragment_b, &tile_b[kk][column]);
            multiply(sums, fragment_a, fragment_b);
        }
        // All threads must have read these tiles before the next ones overwrite them.
        __syncthreads();
    }
    store_vec4<ROWS_APART, COLUMNS_APART>(epilogue, c, row0 + row, column0 + column, m, n, ldc, sums);
}
