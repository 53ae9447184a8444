// Idea: one launch updates all parameters; each cell of 64 elements belongs to one parameter and names its group.
// Formula: g += decay w; m = momentum m + g; w -= rate (g + momentum m) or rate m: rate, momentum and decay are the group's.
// Since the last rung: not a rung; the update of kernels/nn/optimizer.cu for parameters in groups.
// Needs: parameters that begin at multiples of 64; the step's numbers, written by `prepare`; copy of type IN [n] or null.
// Expect: DRAM bandwidth; the groups' numbers come from L1.
#include "launch.cuh"
#include "nn/optimizer.cuh"

#define NO_GROUP 255  // the cell's parameter is frozen or updated by another kernel

// The settings of a group of parameters. The layout is the same as in kernels/nn/muon.cu.
struct Numbers {
    float momentum, decay, nesterov, unused;
};

extern "C" __global__ void __launch_bounds__(THREADS)
update_groups(const unsigned char* __restrict__ cells /* [n / 64] */, const Numbers* __restrict__ numbers /* [groups] */,
              const Step* __restrict__ step /* [1] */, const unsigned* __restrict__ counters /* [4] */,
              const float* __restrict__ rates /* [slots][groups] */, unsigned groups, float* __restrict__ weights /* [n] */,
              const float* __restrict__ gradients /* [split] */, const In* __restrict__ rounded /* [n - split] or null */,
              unsigned long long split, float* __restrict__ momentum /* [n] */, In* __restrict__ copy /* [n] or null */, unsigned long long n) {
    wait_for_predecessor();
    let_successor_start();
    if (step->skip) return;
    const float scale = step->gradient;
    const bool first = step->is_first;
    const float* now = rates + counters[SLOT] * groups;
    const bool grouped = in_groups(weights) && in_groups(momentum), copied = in_groups(copy);
    const Gradients all(gradients, rounded, split, n);
    each_four(n, [&](size_t at) {
        const unsigned group = cells[at / 64];
        if (group == NO_GROUP) return;
        const Numbers by = numbers[group];
        const float rate = now[group];
        Four w = Four::load(weights, at, n, grouped), m = Four::load(momentum, at, n, grouped);
        const Four gradient = all.load(at);
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            const float g = __fadd_rn(__fmul_rn(gradient.v[k], scale), __fmul_rn(by.decay, w.v[k]));
            m.v[k] = first ? g : __fadd_rn(__fmul_rn(by.momentum, m.v[k]), g);
            const float direction = by.nesterov != 0.0f ? __fadd_rn(g, __fmul_rn(by.momentum, m.v[k])) : m.v[k];
            w.v[k] = __fsub_rn(w.v[k], __fmul_rn(rate, direction));
        }
        w.store(weights, at, n, grouped);
        m.store(momentum, at, n, grouped);
        if (copy) w.store_copy(copy, at, n, copied);
    });
}
