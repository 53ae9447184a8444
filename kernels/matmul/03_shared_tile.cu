// Idea: the threads of a block need the same rows of A and columns of B, so the block loads them once, tile by tile, into shared memory.
// Formula: C = f(alpha op(A) op(B) + beta C), row-major with leading dimensions; A and B of type IN, C of type OUT, sums in f32.
// Since the last rung: operands come from tiles in shared memory, BK deep, which all threads of the block load together.
// Needs: any sizes, leading dimensions and alignment; A and B transposed or not.
// Expect: BN and BM times fewer global loads of A and B; now bound by two shared-memory loads for every FMA.
#include "matmul/cuda_cores.cuh"

static_assert(BM * BN == THREADS, "one thread for each element of the tile");
// Padding of a row: lanes that store adjacent k of an operand write to different banks.
constexpr int PAD = 32 / BK;

extern "C" __global__ void __launch_bounds__(THREADS)
gemm(const In* __restrict__ a /* [m][lda], or [k][lda] transposed */, const In* __restrict__ b /* [k][ldb], or [n][ldb] transposed */,
     Out* __restrict__ c /* [m][ldc] */, unsigned m, unsigned n, unsigned k, unsigned lda, unsigned ldb, unsigned ldc, Epilogue epilogue) {
    MARK_BEGIN(gemm);
    __shared__ float tile_a[BK][BM + PAD], tile_b[BK][BN + PAD];
    const unsigned tiles_n = (n + BN - 1) / BN;
    const unsigned row0 = blockIdx.x / tiles_n * BM, column0 = blockIdx.x % tiles_n * BN;
    const unsigned row = threadIdx.x / BN, column = threadIdx.x % BN;
    const Operand<!TRANS_A, BM> op_a{a, m, k, lda};
    const Operand<TRANS_B, BN> op_b{b, n, k, ldb};

    float sum = 0.0f;
    for (unsigned k0 = 0; k0 < k; k0 += BK) {
        MARK(load);
        op_a.load(tile_a, row0, k0);
        op_b.load(tile_b, column0, k0);
        MARK(barrier);
        __syncthreads();
        MARK(multiply);
#pragma unroll
        for (int kk = 0; kk < BK; ++kk) sum = fmaf(tile_a[kk][row], tile_b[kk][column], sum);
        MARK(barrier);
        // All threads must have read these tiles before the next ones overwrite them.
        __syncthreads();
    }
    MARK(store);
    if (row0 + row < m && column0 + column < n) epilogue.store(c, row0 + row, column0 + column, ldc, sum);
    MARK(end);
}
