// Idea: a thread computes one element of C; it reads a row of A and a column of B straight from memory.
// Formula: C = f(alpha op(A) op(B) + beta C), row-major with leading dimensions; A and B of type IN, C of type OUT, sums in f32.
// Since the last rung: none; the ladder begins here.
// Needs: nothing; any sizes, leading dimensions and alignment, A and B transposed or not.
// Expect: neighbouring threads take neighbouring rows, so a warp's reads of A and its stores touch a line for every 4 bytes.
#include "matmul/gemm.cuh"

static_assert(BM * BN == THREADS, "a thread for each element of the tile");

extern "C" __global__ void __launch_bounds__(THREADS)
gemm(const In* __restrict__ a /* [m][lda], or [k][lda] transposed */, const In* __restrict__ b /* [k][ldb], or [n][ldb] transposed */,
     Out* __restrict__ c /* [m][ldc] */, unsigned m, unsigned n, unsigned k, unsigned lda, unsigned ldb, unsigned ldc, Finish finish) {
    const unsigned tiles_n = (n + BN - 1) / BN;
    const unsigned row = blockIdx.x / tiles_n * BM + threadIdx.x % BM;
    const unsigned column = blockIdx.x % tiles_n * BN + threadIdx.x / BM;
    if (row >= m || column >= n) return;

    float sum = 0.0f;
    for (unsigned kk = 0; kk < k; ++kk) {
        sum = fmaf(to_float(a[index_a(row, kk, lda)]), to_float(b[index_b(kk, column, ldb)]), sum);
    }
    finish.store(c, row, column, ldc, sum);
}
