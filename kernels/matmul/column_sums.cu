// Idea: the bias gradient of a layer is the column sums of the gradient that its weight gradient multiplies, summed in two levels.
// Formula: out[c][j] = alpha (sum of op(B)[r][j] over the rows r of chunk c) + beta out[c][j]; op(B) [k][n] of type IN, out f32, sums in f32.
// Since the last rung: not a rung; it runs before a product that also computes a bias gradient.
// Needs: any sizes, leading dimension and alignment; B transposed or not.
// Expect: one read of B at DRAM bandwidth; every sum is added in the same order on every run and every device.
#include "matmul/gemm.cuh"
#include "reduce.cuh"

constexpr int WARPS = THREADS / WARP;
static_assert(BN == WARP, "one column for each lane");
static_assert(BN % WARPS == 0, "transposed, the warps divide the columns evenly");

extern "C" __global__ void __launch_bounds__(THREADS)
column_sums(const In* __restrict__ b /* [k][ldb], or [n][ldb] transposed */, unsigned ldb, unsigned n, unsigned k,
            unsigned rows /* of op(B) per block */, float alpha, float beta, float* __restrict__ out /* [ceil(k / rows)][n] */) {
    __shared__ float sums[WARPS][BN];
    const unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const unsigned tiles_n = (n + BN - 1) / BN, chunk = blockIdx.x / tiles_n, column0 = blockIdx.x % tiles_n * BN;
    const unsigned first = chunk * rows, end = min(first + rows, k);
#if TRANS_B
    // A warp sums its columns one after the other, since each column is contiguous along k.
#pragma unroll
    for (int i = 0; i < BN / WARPS; ++i) {
        const unsigned column = column0 + warp * (BN / WARPS) + i;
        float sum[1] = {};
        if (column < n) {
#pragma unroll 8
            for (unsigned r = first + lane; r < end; r += WARP) sum[0] += to_float(b[index_b(r, column, ldb)]);
        }
        warp_sum(sum);
        if (lane == 0) sums[0][warp * (BN / WARPS) + i] = sum[0];
    }
    __syncthreads();
#else
    // A warp sums every WARPS-th row, with one column in each lane.
    float sum = 0.0f;
    if (column0 + lane < n) {
#pragma unroll 8
        for (unsigned r = first + warp; r < end; r += WARPS) sum += to_float(b[index_b(r, column0 + lane, ldb)]);
    }
    sums[warp][lane] = sum;
    __syncthreads();
#endif
    if (warp == 0 && column0 + lane < n) {
        float total = sums[0][lane];
#if !TRANS_B
#pragma unroll
        for (int w = 1; w < WARPS; ++w) total += sums[w][lane];
#endif
        float* to = out + (size_t)chunk * n + column0 + lane;
        *to = beta != 0.0f ? fmaf(beta, *to, alpha * total) : alpha * total;
    }
}
