// Idea: a product whose k is split over GPUs is the sum of their partial products, all of them in f32.
// Formula: out[i] = first[i] + others[0][i] + others[1][i] ..., in this order, added in f32 and rounded once to type IN.
// Since the last rung: not a rung; the last step of a product over several GPUs.
// Needs: any n and alignment; `others` [count] parts that are `stride` floats apart; arrays without 16-byte alignment are added element by element.
// Expect: DRAM bandwidth: count + 1 reads of f32 and a write of each element.
#include "nn/elements.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
add_partials(const float* __restrict__ first /* [n] */, const float* __restrict__ others /* [count][stride] */, unsigned long long stride,
             unsigned count, In* __restrict__ out /* [n] */, unsigned long long n) {
    constexpr int FLOATS = 4;
    const bool grouped = in_groups(first), others_grouped = in_groups(others) && stride % FLOATS == 0;
    const bool out_grouped = in_groups(out);
    each_group(n, [&](size_t at) {
        float sum[GROUP];
#pragma unroll
        for (int k = 0; k < GROUP; k += FLOATS) {
            float v[FLOATS] = {};
            if (at + k < n) load_group(first, at + k, n, grouped, v);
            for (unsigned part = 0; part < count && at + k < n; ++part) {
                float w[FLOATS];
                load_group(others + part * stride, at + k, n, others_grouped, w);
#pragma unroll
                for (int i = 0; i < FLOATS; ++i) v[i] += w[i];
            }
#pragma unroll
            for (int i = 0; i < FLOATS; ++i) sum[k + i] = v[i];
        }
        store_group(out, at, n, out_grouped, sum);
    });
}
