// The first level of the sums of the cross entropy loss, and its gradient: one warp per row.
#pragma once
#include "nn/elements.cuh"
#include "nn/sums.cuh"

constexpr int WARPS = THREADS / WARP;

// True if the logit a of class_a ranks before the logit b of class_b: NaN ranks first, and the lower class wins among equal logits.
__device__ __forceinline__ bool before(float a, unsigned class_a, float b, unsigned class_b) {
    const bool a_nan = a != a, b_nan = b != b;
    if (a_nan != b_nan) return a_nan;
    if (a_nan || a == b) return class_a < class_b;
    return a > b;
}

// Computes the WARPS rows from row blockIdx.x * WARPS on, for cross_entropy.cu and cross_entropy_last_block.cu. The gradient belongs to
// the mean over `rows` rows, which include the rows of all ranks.
__device__ __forceinline__ void rows_of_block(const In* logits /* [batch][classes] */, const unsigned char* labels /* [batch] */,
                                              unsigned batch, unsigned classes, float smoothing, float rows,
                                              const float* loss_scale /* [1] or null */, In* dlogits /* [batch][classes] or null */,
                                              double* partial /* [gridDim.x] */, unsigned* hits /* [gridDim.x] */) {
    __shared__ double losses[WARPS];
    __shared__ unsigned correct[WARPS];
    const unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, row = blockIdx.x * WARPS + warp;
    double loss = 0.0;
    unsigned hit = 0;
    if (row < batch) {
        const In* from = logits + (size_t)row * classes;
        float largest = __int_as_float(0xff800000);  // -infinity, so that every class ranks before it
        unsigned predicted = 0xffffffffu;
        for (unsigned c = lane; c < classes; c += WARP) {
            const float logit = to_float(from[c]);
            if (before(logit, c, largest, predicted)) largest = logit, predicted = c;
        }
#pragma unroll
        for (int offset = WARP / 2; offset > 0; offset /= 2) {
            const float logit = __shfl_xor_sync(ALL_LANES, largest, offset);
            const unsigned c = __shfl_xor_sync(ALL_LANES, predicted, offset);
            if (before(logit, c, largest, predicted)) largest = logit, predicted = c;
        }
        // The largest logit is subtracted before exp, so that no sum overflows.
        float sums[2] = {};
        for (unsigned c = lane; c < classes; c += WARP) {
            const float shifted = to_float(from[c]) - largest;
            sums[0] += expf(shifted);
            sums[1] += shifted;
        }
        warp_sum(sums);
        const unsigned label = labels[row];
        const float own = 1.0f - smoothing, spread = smoothing / (float)classes;
        const float factor = (loss_scale ? *loss_scale : 1.0f) / rows;
#pragma unroll 2
        for (unsigned c = lane; dlogits && c < classes; c += WARP) {
            const float target = c == label ? own + spread : spread;
            const float p = expf(to_float(from[c]) - largest) / sums[0];
            dlogits[(size_t)row * classes + c] = from_float<In>(factor * (p - target));
        }
        const float of_label = label < classes ? to_float(from[label]) - largest : __int_as_float(0x7fffffff);
        loss = (double)logf(sums[0]) - (double)own * of_label;
        if (spread > 0.0f) loss -= (double)spread * sums[1];
        hit = predicted == label;
    }
    if (lane == 0) {
        losses[warp] = loss;
        correct[warp] = hit;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
#pragma unroll
        for (int w = 1; w < WARPS; ++w) {
            loss += losses[w];
            hit += correct[w];
        }
        partial[blockIdx.x] = loss;
        hits[blockIdx.x] = hit;
    }
}
