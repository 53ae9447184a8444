// Idea: the mask is drawn again in the backward pass instead of being stored: a Philox block provides the random words of four elements.
// Formula: out[i] = in[i] scale if word e mod 4 of block [e / 4 low, e / 4 high, name, *step] >= threshold, e = begin + i; else 0; [n].
// Since the last rung: not a rung; forward and backward are the same kernel.
// Needs: any n and alignment; the step in device memory, so that a replayed graph draws new masks. `out` may equal `in`.
// Expect: DRAM bandwidth for f32; for 16-bit types, the ten rounds of a Philox block take as long as the memory traffic.
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
            // The condition is the same for all threads. A group's last Philox block is drawn only if an element of the group uses its words.
            if (b + 1 < GROUP / 4 || odd) next = words_of(block + b + 1);
            unsigned w[8] = {words.w[0], words.w[1], words.w[2], words.w[3], next.w[0], next.w[1], next.w[2], next.w[3]};
            if (odd) {
                // The words are shifted in two steps with constant indices, so that they stay in registers.
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
