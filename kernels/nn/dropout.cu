// Idea: the mask is drawn again in the backward pass instead of being stored: a Philox block gives four elements their words.
// Formula: out[i] = in[i] scale where word i mod 4 of block [i / 4 low, i / 4 high, name, *step] >= threshold, else 0; [n] of type IN.
// Since the last rung: not a rung; forward and backward are the same kernel.
// Needs: any n and alignment; the step in device memory, so that a graph that is replayed draws new masks. out may be in.
// Expect: DRAM bandwidth for f32; for half types the ten rounds of a block cost as much as the bytes.
#include "launch.cuh"
#include "nn/elements.cuh"
#include "nn/philox.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
dropout(const In* in /* [n] */, In* out /* [n] */, unsigned long long n, unsigned long long seed, unsigned name,
        const unsigned* __restrict__ step /* [1] */, unsigned threshold, float scale) {
    wait_for_predecessor();
    let_successor_start();
    static_assert(GROUP % 4 == 0, "whole Philox blocks in a group");
    const bool grouped = in_groups(in) && in_groups(out);
    const unsigned now = *step;
    each_group(n, [&](size_t first) {
        float v[GROUP];
        load_group(in, first, n, grouped, v);
#pragma unroll
        for (int b = 0; b < GROUP / 4; ++b) {
            const unsigned long long block = first / 4 + b;
            const Words words = philox(seed, Words{{(unsigned)block, (unsigned)(block >> 32), name, now}});
#pragma unroll
            for (int k = 0; k < 4; ++k) v[4 * b + k] = words.w[k] >= threshold ? v[4 * b + k] * scale : 0.0f;
        }
        store_group(out, first, n, grouped, v);
    });
}
