// Idea: blocks that ask L2 for the same lines at nearly the same time may be answered together; the rate of their requests tells.
// Formula: out[block] = sum of the parts of data, f32[n], that the block read in `rounds` rounds; `group` blocks in a row read the same.
// Since the last rung: not a rung; with a group of 1 it is peaks/read.cu.
// Needs: data 16-byte aligned, n a multiple of 4 below 2^33; the grid a multiple of `group`; L1 is bypassed.
// Expect: the rate of L2's ceiling with a group of 1; above it, if requests for the same line are merged on their way.
#include "reduce.cuh"

static_assert(ITEMS % 4 == 0, "the array is read four floats at a time");
constexpr unsigned GROUPS = ITEMS / 4;

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
read_together(const float* __restrict__ data /* [n] */, float* __restrict__ out /* [blocks] */, unsigned long long n, unsigned rounds,
              unsigned group) {
    const unsigned readers = gridDim.x / group, groups = (unsigned)(n / 4), stride = readers * THREADS;
    const float4* data4 = reinterpret_cast<const float4*>(data);
    float4 sum = make_float4(0, 0, 0, 0);
    for (unsigned round = 0; round < rounds; ++round) {
        // Another part in every round, so that nothing can be kept from the last one.
        unsigned i = (blockIdx.x / group + round) % readers * THREADS + threadIdx.x;
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
