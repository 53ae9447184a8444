// Idea: the fastest that a GPU reads an array is the ceiling for every kernel that has to read one.
// Formula: out[block] = sum of what the block read of data, f32[n], over `rounds` rounds of the whole array.
// Since the last rung: none; this measures a ceiling.
// Needs: data 16-byte aligned, n a multiple of 4 below 2^33; L1 is bypassed, so a small array measures L2.
// Expect: 90 % and more of the datasheet's bandwidth from an array several times L2.
#include "reduce.cuh"

static_assert(ITEMS % 4 == 0, "the array is read four floats at a time");
constexpr unsigned GROUPS = ITEMS / 4;

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
read_sum(const float* __restrict__ data /* [n] */, float* __restrict__ out /* [blocks] */, unsigned long long n,
         unsigned rounds) {
    const unsigned groups = (unsigned)(n / 4), stride = gridDim.x * THREADS;
    const float4* data4 = reinterpret_cast<const float4*>(data);
    float4 sum = make_float4(0, 0, 0, 0);
    for (unsigned round = 0; round < rounds; ++round) {
        // Another block's share in every round, so that nothing can be kept from the last one.
        const unsigned block = (blockIdx.x + round) % gridDim.x;
        unsigned i = block * THREADS + threadIdx.x;
        // All reads of a step are on their way before the first is added.
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
    if (threadIdx.x == 0) out[blockIdx.x] = total[0];
}
