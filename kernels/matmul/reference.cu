// Idea: every result is checked against the same product in f64, computed by a simple tiled kernel.
// Formula: want = op(A) op(B), sizes = |op(A)| |op(B)|, both f64 [m][n]; then every element of C is compared.
// Since the last rung: not a rung; it checks the rungs.
// Needs: any m, n, k; the same arrays that the checked kernel gets; TF32 = 1 truncates factors to the bits that tensor cores read.
// Expect: tiles in shared memory and 4 x 4 sums per thread, bound by FP64 throughput.
#include "matmul/gemm.cuh"

#ifndef TF32
#define TF32 0
#endif
constexpr int TILE = 64, DEPTH = 16, EACH = 4;
static_assert(THREADS == TILE / EACH * (TILE / EACH), "4 x 4 elements per thread");

__device__ __forceinline__ double factor(In v) {
    const float f = to_float(v);
    return TF32 ? __uint_as_float(__float_as_uint(f) & ~0x1fffu) : f;
}

// The reference leaves out alpha; compare() applies it, so that one reference serves several values of alpha.
extern "C" __global__ void __launch_bounds__(THREADS)
reference(const In* __restrict__ a /* [m][lda] or [k][lda] */, const In* __restrict__ b /* [k][ldb] or [n][ldb] */,
          double* __restrict__ want /* [m][n] */, double* __restrict__ sizes /* [m][n] */, unsigned m, unsigned n, unsigned k,
          unsigned lda, unsigned ldb) {
    __shared__ double tile_a[DEPTH][TILE + 1], tile_b[DEPTH][TILE + 1];
    const unsigned tiles = (n + TILE - 1) / TILE, row = blockIdx.x / tiles * TILE, column = blockIdx.x % tiles * TILE;
    const unsigned y = threadIdx.x / (TILE / EACH), x = threadIdx.x % (TILE / EACH);
    double sum[EACH][EACH] = {}, size[EACH][EACH] = {};
    for (unsigned first = 0; first < k; first += DEPTH) {
        for (unsigned i = threadIdx.x; i < TILE * DEPTH; i += THREADS) {
            // Adjacent threads read adjacent elements, whether or not the matrix is stored transposed.
            const unsigned ka = TRANS_A ? i / TILE : i % DEPTH, r = TRANS_A ? i % TILE : i / DEPTH;
            const unsigned kb = TRANS_B ? i % DEPTH : i / TILE, c = TRANS_B ? i / DEPTH : i % TILE;
            tile_a[ka][r] = first + ka < k && row + r < m ? factor(a[index_a(row + r, first + ka, lda)]) : 0.0;
            tile_b[kb][c] = first + kb < k && column + c < n ? factor(b[index_b(first + kb, column + c, ldb)]) : 0.0;
        }
        __syncthreads();
#pragma unroll 4
        for (int p = 0; p < DEPTH; ++p) {
            double u[EACH], v[EACH];
#pragma unroll
            for (int i = 0; i < EACH; ++i) u[i] = tile_a[p][y + i * (TILE / EACH)], v[i] = tile_b[p][x + i * (TILE / EACH)];
#pragma unroll
            for (int i = 0; i < EACH; ++i) {
#pragma unroll
                for (int j = 0; j < EACH; ++j) {
                    sum[i][j] = fma(u[i], v[j], sum[i][j]);
                    size[i][j] = fma(fabs(u[i]), fabs(v[j]), size[i][j]);
                }
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
#pragma unroll
        for (int j = 0; j < EACH; ++j) {
            const unsigned r = row + y + i * (TILE / EACH), c = column + x + j * (TILE / EACH);
            if (r < m && c < n) want[(size_t)r * n + c] = sum[i][j], sizes[(size_t)r * n + c] = size[i][j];
        }
    }
}

struct Verdict {
    unsigned long long max_abs_error, max_error;  // Bits of f64 values, which sort like the values themselves if these are not negative.
    unsigned long long wrong, first_wrong;        // Number of wrong elements, and row * n + column of the first one.
};

// Compares C = alpha A B with the reference: measures errors beyond the rounding to C's type, relative to the sum of the magnitudes of the
// terms.
extern "C" __global__ void __launch_bounds__(THREADS)
compare(const Out* __restrict__ c /* [m][ldc] */, const double* __restrict__ want /* [m][n] */, const double* __restrict__ sizes /* [m][n] */,
        unsigned m, unsigned n, unsigned ldc, double alpha, double tolerance, double half_epsilon, double tiny, Verdict* verdict) {
    const unsigned long long all = (unsigned long long)m * n, stride = (unsigned long long)gridDim.x * THREADS;
    double worst_abs = 0.0, worst = 0.0;
    unsigned long long wrong = 0, first = ~0ull;
    for (unsigned long long i = blockIdx.x * (unsigned long long)THREADS + threadIdx.x; i < all; i += stride) {
        const double got = to_float(c[i / n * ldc + i % n]), w = alpha * want[i];
        const double magnitude = fabs(alpha) * sizes[i], abs_error = fabs(got - w);
        // fmax would return the other operand for NaN, so an element that is NaN would have no error.
        const double rounding = half_epsilon * fabs(w), beyond = abs_error <= rounding ? 0.0 : abs_error - rounding;
        const double error = beyond / fmax(magnitude, 1e-300);
        // If the reference is not finite, C must equal it; if the reference is finite, a NaN in C must fail.
        const bool finite = fabs(w) <= 1.7e308, right = finite ? beyond <= tolerance * magnitude + tiny : got == w || (got != got && w != w);
        if (finite) {
            worst_abs = abs_error == abs_error ? fmax(worst_abs, abs_error) : 1e308;
            worst = error == error ? fmax(worst, error) : 1e308;
        }
        if (!right) ++wrong, first = min(first, i);
    }
    atomicMax(&verdict->max_abs_error, (unsigned long long)__double_as_longlong(worst_abs));
    atomicMax(&verdict->max_error, (unsigned long long)__double_as_longlong(worst));
    if (wrong > 0) atomicAdd(&verdict->wrong, wrong), atomicMin(&verdict->first_wrong, first);
}
