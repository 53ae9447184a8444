// Idea: so far the end of a launch was the barrier; a single launch with its own barrier can run all epochs.
// Formula: as 02_fused, all epochs in one launch; the blocks' sums meet in words[2][blocks][8], two used; f32[n].
// Since the last rung: 2 kernels per epoch became one for all epochs, whose blocks exchange their sums through L2.
// Needs: x and y 16-byte aligned; any n; all blocks resident at once: a cooperative launch.
// Expect: no launches; the next epoch's first points are in flight during the exchange, which takes about a microsecond.
#include "regression/persistent.cuh"

// If 1, every other epoch goes through the points backwards, so that an epoch begins with the points that were read last.
#ifndef ALTERNATE
#define ALTERNATE 0
#endif

static_assert(ITEMS % 4 == 0, "points are read four at a time");
constexpr int GROUPS = ITEMS / 4;

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
descend(const float* __restrict__ x /* [n] */, const float* __restrict__ y /* [n] */, unsigned long long n,
        unsigned epochs, unsigned log_every, float learning_rate, float inverse_n, float* weights /* [2]: w, b */,
        float* losses /* [epochs / log_every] */, float* loss_partial /* [epochs / log_every][blocks] */,
        unsigned long long* words /* [2][blocks][SLOT_WORDS] */, Control* control, unsigned blocks, unsigned long long limit_ns) {
    MARK_BEGIN(descend);
    __shared__ Descent<THREADS>::Shared shared;
    const unsigned long long first = blockIdx.x * (unsigned long long)THREADS + threadIdx.x;
    const unsigned long long stride = gridDim.x * (unsigned long long)THREADS, groups = n / 4;
    const float4* x4 = reinterpret_cast<const float4*>(x);
    const float4* y4 = reinterpret_cast<const float4*>(y);
    const unsigned parts = (unsigned)((groups + GROUPS * stride - 1) / (GROUPS * stride));

    float4 xs[GROUPS], ys[GROUPS];
    const auto load = [&](unsigned part) {
        const unsigned long long from = first + part * (GROUPS * stride);
#pragma unroll
        for (int g = 0; g < GROUPS; ++g) {
            if (from + g * stride < groups) xs[g] = x4[from + g * stride], ys[g] = y4[from + g * stride];
        }
    };
    MARK(load);
    load(0);
    Descent<THREADS> descent(shared, PairExchange(words, control, blocks, limit_ns), weights,
                             learning_rate * 2.0f * inverse_n, log_every, loss_partial);

    for (unsigned epoch = 1; epoch <= epochs; ++epoch) {
        const bool backwards = ALTERNATE && epoch % 2 == 0, logged = descent.log.next();
        MARK(compute);
        PointSums<> points(descent.w, descent.b);
        for (unsigned k = 0; k < parts; ++k) {
            const unsigned part = backwards ? parts - 1 - k : k;
            // The first part (k = 0) has already been loaded.
            if (k > 0) load(part);
            const unsigned long long from = first + part * (GROUPS * stride);
#pragma unroll
            for (int g = 0; g < GROUPS; ++g) {
                if (from + g * stride < groups) points.add(xs[g], ys[g]);
            }
        }
        if (first < n % 4) points.add(0, x[groups * 4 + first], y[groups * 4 + first]);
        float sums[SUMS];
        points.total(sums);
        // Loading the first points need not wait for the weights. With ALTERNATE, the last part of this epoch is the first part of the next.
        MARK(load);
        if (!ALTERNATE && parts > 1) load(0);
        if (!descent.step(epoch, logged, sums)) return;
    }
    MARK(finish);
    descent.finish(epochs, inverse_n, weights, losses);
    MARK(end);
}
