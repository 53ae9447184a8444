// Idea: the ceiling of tensor-core arithmetic for warps: fragments already in registers are multiplied over and over.
// Formula: out[thread] = sums of [16][k] times [k][8]; f16, bf16 (k = 16) or tf32 (k = 8) in, f32 sums; ITEMS chains per warp.
// Since the last rung: not a rung; products are compared with it.
// Needs: compute capability 8.0; values[THREADS * 6]: random, since equal numbers would take less power.
// Expect: enough independent chains that the tensor cores never wait; on Hopper, warpgroups are faster (see wgmma.cu).
#include "matmul/gemm.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
mma_rounds(const unsigned* __restrict__ values /* [6][THREADS] */, float* __restrict__ out /* [blocks][THREADS] */, unsigned rounds) {
    unsigned a[4], b[2];
    for (int i = 0; i < 4; ++i) a[i] = values[i * THREADS + threadIdx.x];
    for (int i = 0; i < 2; ++i) b[i] = values[(4 + i) * THREADS + threadIdx.x];
    float d[ITEMS][4] = {};
    for (unsigned round = 0; round < rounds; ++round) {
#pragma unroll
        for (int i = 0; i < ITEMS; ++i) {
#define MMA(SHAPE_AND_TYPES) \
    asm volatile("mma.sync.aligned." SHAPE_AND_TYPES " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
                 : "+f"(d[i][0]), "+f"(d[i][1]), "+f"(d[i][2]), "+f"(d[i][3]) \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
            if constexpr (IN == TYPE_F16) MMA("m16n8k16.row.col.f32.f16.f16.f32");
            else if constexpr (IN == TYPE_BF16) MMA("m16n8k16.row.col.f32.bf16.bf16.f32");
            else MMA("m16n8k8.row.col.f32.tf32.tf32.f32");
        }
    }
    float total = 0.0f;
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) total += (d[i][0] + d[i][1]) + (d[i][2] + d[i][3]);
    out[blockIdx.x * THREADS + threadIdx.x] = total;
}
