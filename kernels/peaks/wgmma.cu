// Idea: the ceiling of tensor-core arithmetic: tiles already in shared memory are multiplied over and over.
// Formula: out[warpgroup] = sums of [64][k] times [k][BN], f16, bf16 or tf32 in, f32 sums; two warpgroups per multiprocessor.
// Since the last rung: not a rung; products are compared with it.
// Needs: sm_90a; values[STAGE_BYTES * STAGES / 4]: random, since equal numbers would take less power.
// Expect: each multiplication starts when the last one ends; the limit is the clock that the power allows.
#include "matmul/hopper.cuh"

static_assert(THREADS == BM / 64 * WARPGROUP, "a warpgroup for every 64 rows");

extern "C" __global__ void __launch_bounds__(THREADS, 1)
wgmma_rounds(const unsigned* __restrict__ values /* [STAGES * STAGE_BYTES / 4] */, float* __restrict__ out /* [blocks][THREADS] */,
             unsigned rounds) {
    const unsigned base = aligned_shared();
    for (unsigned i = threadIdx.x; i < STAGES * STAGE_BYTES / 4; i += THREADS) {
        asm volatile("st.shared.u32 [%0], %1;" ::"r"(base + i * 4), "r"(values[i]) : "memory");
    }
    fence_for_copies();
    __syncthreads();
    const int group = warpgroup_index();
    const unsigned a = descriptor(base + group * CHUNK_BYTES, true), b = descriptor(base + A_BYTES, TRANS_B);
    Sums sums;
    for (unsigned round = 0; round < rounds; ++round) {
#pragma unroll
        for (int s = 0; s < STAGES; ++s) {
            sums.multiply(a + s * (STAGE_BYTES / 16), b + s * (STAGE_BYTES / 16), round + s > 0);
            sums.wait<1>();
        }
    }
    sums.wait<0>();
    sums.hold();
    float total = 0.0f;
#pragma unroll
    for (int i = 0; i < BN / 2; ++i) total += sums.d[i];
    out[blockIdx.x * THREADS + threadIdx.x] = total;
}
