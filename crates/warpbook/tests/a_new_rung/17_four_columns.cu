// Idea: a thread computes four neighbouring columns, so that one element of A serves four FMAs.
// Formula: C = f(alpha op(A) op(B) + beta C), row-major with leading dimensions; A and B of type IN, C of type OUT, sums in f32.
// Since the last rung: four sums a thread instead of one.
// Needs: any sizes, leading dimensions and alignment; A and B transposed or not.
// Expect: five loads for four FMAs instead of eight.
#include "matmul/gemm.cuh"

constexpr int COLUMNS = 4;
static_assert(BM * BN == COLUMNS * THREADS, "four elements of the tile a thread");

extern "C" __global__ void __launch_bounds__(THREADS)
gemm(const In* __restrict__ a /* [m][lda], or [k][lda] transposed */, const In* __restrict__ b /* [k][ldb], or [n][ldb] transposed */,
     Out* __restrict__ c /* [m][ldc] */, unsigned m, unsigned n, unsigned k, unsigned lda, unsigned ldb, unsigned ldc, Epilogue epilogue) {
    const unsigned tiles_n = (n + BN - 1) / BN, in_row = BN / COLUMNS;
    const unsigned row = blockIdx.x / tiles_n * BM + threadIdx.x / in_row;
    const unsigned column = blockIdx.x % tiles_n * BN + threadIdx.x % in_row * COLUMNS;
    if (row >= m) return;
    float sums[COLUMNS] = {};
    for (unsigned kk = 0; kk < k; ++kk) {
        const float left = to_float(a[index_a(row, kk, lda)]);
#pragma unroll
        for (unsigned j = 0; j < COLUMNS; ++j) {
            if (column + j < n) sums[j] = fmaf(left, to_float(b[index_b(kk, column + j, ldb)]), sums[j]);
        }
    }
#pragma unroll
    for (unsigned j = 0; j < COLUMNS; ++j) {
        if (column + j < n) epilogue.store(c, row, column + j, ldc, sums[j]);
    }
}
