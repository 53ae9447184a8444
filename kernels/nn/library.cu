// Idea: the work left to do after a library's product or convolution: bias and ReLU, and the weight gradient in fp32.
// Formula: y[i] = f(y[i] + bias[i / pixels % channels]), y [n] of type IN, bias fp32 [channels], f the identity or max(v, 0); to[i] = from[i], both [n].
// Since the last rung: not a rung; our own products do this in their epilogues, while their sums are in registers.
// Needs: any n below 2^32 and any alignment; pixels is 1 if channels are adjacent in memory.
// Expect: DRAM bandwidth, or L2 bandwidth right after the product; y is rounded to IN twice, before and after the bias.
#include "launch.cuh"
#include "nn/elements.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
bias_forward(In* y /* [n] */, const float* bias /* [channels] */, unsigned channels, unsigned pixels, unsigned relu, unsigned n) {
    wait_for_predecessor();
    let_successor_start();
    const bool grouped = in_groups(y);
    each_group(n, [&](size_t first) {
        float v[GROUP];
        load_group(y, first, n, grouped, v);
        // The position of the group's first element; the loop below advances it by one element at a time.
        unsigned pixel = (unsigned)first % pixels, channel = (unsigned)first / pixels % channels;
#pragma unroll
        for (int k = 0; k < GROUP; ++k) {
            v[k] += bias[channel];
            // fmaxf would turn a NaN into 0.
            if (relu && v[k] < 0.0f) v[k] = 0.0f;
            if (++pixel == pixels) {
                pixel = 0;
                if (++channel == channels) channel = 0;
            }
        }
        store_group(y, first, n, grouped, v);
    });
}

extern "C" __global__ void __launch_bounds__(THREADS)
widen(const In* from /* [n] */, float* to /* [n] */, unsigned n) {
    wait_for_predecessor();
    let_successor_start();
    const bool grouped = in_groups(from);
    each_group(n, [&](size_t first) {
        float v[GROUP];
        load_group(from, first, n, grouped, v);
#pragma unroll
        for (int k = 0; k < GROUP; ++k)
            if (first + k < n) to[first + k] = v[k];
    });
}
