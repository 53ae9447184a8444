// Idea: one thread computes one element of C, reading a row of A and a column of B directly from global memory.
// Formula: C = f(alpha op(A) op(B) + beta C), row-major with leading dimensions; A and B of type IN, C of type OUT, sums in f32.
// Since the last rung: nothing; the ladder starts here.
// Needs: any sizes, leading dimensions and alignment; A and B transposed or not.
// Expect: uncoalesced access: adjacent threads compute adjacent rows, so each lane reads A and writes C in a different cache line.
#include "matmul/gemm.cuh"

static_assert(BM * BN == THREADS, "one thread for each element of the tile");

extern "C" __global__ void __launch_bounds__(THREADS)
gemm(const In* __restrict__ a /* [m][lda], or [k][lda] transposed */, const In* __restrict__ b /* [k][ldb], or [n][ldb] transposed */,
     Out* __restrict__ c /* [m][ldc] */, unsigned m, unsigned n, unsigned k, unsigned lda, unsigned ldb, unsigned ldc, Epilogue epilogue) {
    const unsigned tiles_n = (n + BN - 1) / BN;
    const unsigned row = blockIdx.x / tiles_n * BM + threadIdx.x % BM;
    const unsigned column = blockIdx.x % tiles_n * BN + threadIdx.x / BM;
    if (row >= m || column >= n) return;

    float sum = 0.0f;
    for (unsigned kk = 0; kk < k; ++kk) {
        sum = fmaf(to_float(a[index_a(row, kk, lda)]), to_float(b[index_b(kk, column, ldb)]), sum);
    }
    epilogue.store(c, row, column, ldc, sum);
}
