// Reads a whole array repeatedly with several readers, each of which adds up a part of the array.
#pragma once
#include "reduce.cuh"

static_assert(ITEMS % 4 == 0, "the array is read four floats at a time");
constexpr unsigned GROUPS = ITEMS / 4;

// Adds up what reader number `reader` of `readers` reads in `rounds` rounds, and stores the sum once. Together the readers read the whole
// array in each round. `data` is aligned to 16 bytes, and n is a multiple of 4 below 2^33. L1 is bypassed.
__device__ __forceinline__ void sum_of_reads(const float* __restrict__ data /* [n] */, unsigned long long n, unsigned rounds, unsigned reader,
                                             unsigned readers, float* __restrict__ out /* [1] */) {
    const unsigned groups = (unsigned)(n / 4), stride = readers * THREADS;
    const float4* data4 = reinterpret_cast<const float4*>(data);
    float4 sum = make_float4(0, 0, 0, 0);
    for (unsigned round = 0; round < rounds; ++round) {
        // Reads another reader's part in every round, so that nothing can be kept from the last round.
        unsigned i = (reader + round) % readers * THREADS + threadIdx.x;
        // All reads of a step are in flight before the first value is added.
        for (; i + (GROUPS - 1) * stride < groups; i += GROUPS * stride) {
            float4 v[GROUPS];
#pragma unroll
            for (unsigned g = 0; g < GROUPS; ++g) v[g] = __ldcg(data4 + i + g * stride);
#pragma unroll
            for (unsigned g = 0; g < GROUPS; ++g) sum.x += v[g].x, sum.y += v[g].y, sum.z += v[g].z, sum.w += v[g].w;
        }
        for (; i < groups; i += stride) {
            const float4 v = __ldcg(data4 + i);
            sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
        }
    }
    float total[1] = {(sum.x + sum.y) + (sum.z + sum.w)};
    block_sum<THREADS>(total);
    if (threadIdx.x == 0) *out = total[0];
}
