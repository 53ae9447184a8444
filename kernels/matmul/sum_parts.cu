// Idea: a product whose k is split over the grid leaves a matrix of partial sums for each part; this kernel adds them and applies the epilogue.
// Formula: C = f(alpha (S0 + S1 + ...) + beta C); S f32 [parts][m][ld], C f16, bf16 or f32 [m][ldc], row-major.
// Since the last rung: not a rung; it runs after 15d_split_over_workspace and 17b_unaligned_in_parts.
// Needs: S at a multiple of 16 bytes; ld a multiple of 4, at least n; elements past n may hold anything. C at any address.
// Expect: S is read from L2, where the product has just left it; the parts are added in the same order on every run.
#include "launch.cuh"
#include "matmul/gemm.cuh"

// Each thread sums four columns of a row.
extern "C" __global__ void __launch_bounds__(THREADS)
sum_parts(const float* __restrict__ sums /* [parts][m][ld] */, unsigned parts, unsigned ld, Out* __restrict__ c /* [m][ldc] */, unsigned m,
          unsigned n, unsigned ldc, Epilogue epilogue) {
    let_successor_start();
    wait_for_predecessor();
    const unsigned index = blockIdx.x * THREADS + threadIdx.x, row = index / (ld / 4), column = index % (ld / 4) * 4;
    if (row >= m || column >= n) return;
    const size_t a_part = (size_t)m * (ld / 4);
    const float4* from = reinterpret_cast<const float4*>(sums) + (size_t)row * (ld / 4) + column / 4;
    float4 sum = *from;
    // Loads several parts at a time: one after another, each load would take the full latency of L2.
#pragma unroll 8
    for (unsigned part = 1; part < parts; ++part) {
        const float4 v = from[part * a_part];
        sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
    }
    const float all[4] = {sum.x, sum.y, sum.z, sum.w};
    const bool whole = n % 4 == 0 && ldc % 4 == 0 && (size_t)c % (4 * sizeof(Out)) == 0;
    if (!whole) {
        for (int i = 0; i < 4 && column + i < n; ++i) epilogue.store(c, row, column + i, ldc, all[i]);
        return;
    }
    float v[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) v[i] = epilogue(all[i], c, row, column + i, ldc);
    Out* const to = c + (size_t)row * ldc + column;
    if constexpr (sizeof(Out) == 2) *reinterpret_cast<uint2*>(to) = make_uint2(pack(Out{}, v[0], v[1]), pack(Out{}, v[2], v[3]));
    else *reinterpret_cast<float4*>(to) = make_float4(v[0], v[1], v[2], v[3]);
}
