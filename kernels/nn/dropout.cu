// Idea: the mask is drawn again in the backward pass instead of being stored: a Philox block gives four elements their words.
// Formula: out[i] = in[i] scale where word e mod 4 of block [e / 4 low, e / 4 high, name, *step] >= threshold, e = begin + i; else 0; [n].
// Since the last rung: not a rung; forward and backward are the same kernel.
// Needs: any n and alignment; the step in device memory, so that a graph that is replayed draws new masks. out may be in.
// Expect: DRAM bandwidth for f32; for half types the ten rounds of a block cost as much as the bytes.
#include "launch.cuh"
#include "nn/elements.cuh"
#include "nn/philox.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
dropout(const In* in /* [n] */, In* out /* [n] */, unsigned long long n, unsigned long long seed, unsigned name,
        const unsigned* __restrict__ step /* [1] */, unsigned threshold, float scale,
        unsigned long long begin /* elements of the batch before the first */) {
    wait_for_predecessor();
    let_successor_start();
    static_assert(GROUP % 4 == 0, "whole Philox blocks in a group");
    const bool grouped = in_groups(in) && in_groups(out);
    const unsigned now = *step, odd = begin % 4;
    const auto words_of = [&](unsigned long long block) {
        return philox(seed, Words{{(unsigned)block, (unsigned)(block >> 32), name, now}});
    };
    each_group(n, [&](size_t first) {
        float v[GROUP];
        load_group(in, first, n, grouped, v);
        const unsigned long long block = begin / 4 + first / 4;
        Words words = words_of(block);
#pragma unroll
        for (int b = 0; b < GROUP / 4; ++b) {
            Words next = words;
            // The condition is the same for all threads; a group's last block is drawn only if an element reaches into it.
            if (b + 1 < GROUP / 4 || odd) next = words_of(block + b + 1);
            unsigned w[8] = {words.w[0], words.w[1], words.w[2], words.w[3], next.w[0], next.w[1], next.w[2], next.w[3]};
            if (odd) {
                // Shifts in two steps with fixed indices, so that the words stay in registers.
#pragma unroll
                for (int k = 0; k < 7; ++k) w[k] = odd & 1 ? w[k + 1] : w[k];
#pragma unroll
                for (int k = 0; k < 4; ++k) w[k] = odd & 2 ? w[k + 2] : w[k];
            }
#pragma unroll
            for (int k = 0; k < 4; ++k) v[4 * b + k] = w[k] >= threshold ? v[4 * b + k] * scale : 0.0f;
            words = next;
        }
        store_group(out, first, n, grouped, v);
    });
}
