// The two levels of sums of squares that give the norm of all gradients.
#pragma once
#include "nn/elements.cuh"
#include "nn/sums.cuh"

// The number of blocks that sum n elements. It depends only on n; if n is large, each block sums several chunks of elements.
__device__ __forceinline__ unsigned parts(size_t n) {
    const size_t chunks = (n + THREADS * ITEMS - 1) / (THREADS * ITEMS);
    return chunks < MOST_PARTS ? (unsigned)chunks : MOST_PARTS;
}

// Sums the squares of every MOST_PARTS-th chunk of THREADS * ITEMS elements, starting with chunk `part`, and writes the sum.
template <class T>
__device__ __forceinline__ void squares_of_part(const T* gradients /* [n] */, size_t n, unsigned part, double* to /* [1] */) {
    constexpr int OF_WORD = 16 / sizeof(T);
    static_assert(ITEMS % OF_WORD == 0, "whole groups");
    const bool grouped = in_groups(gradients);
    double sum = 0.0;
    for (size_t chunk = part; chunk * THREADS * ITEMS < n; chunk += MOST_PARTS) {
#pragma unroll 4
        for (int i = 0; i < ITEMS / OF_WORD; ++i) {
            const size_t first = chunk * THREADS * ITEMS + ((size_t)i * THREADS + threadIdx.x) * OF_WORD;
            if (first < n) {
                float v[OF_WORD];
                load_group(gradients, first, n, grouped, v);
#pragma unroll
                for (int k = 0; k < OF_WORD; ++k) sum += (double)v[k] * (double)v[k];
            }
        }
    }
    sum = block_sum<THREADS>(sum);
    if (threadIdx.x == 0) *to = sum;
}

// Computes in one block the norm of the gradients, the factor that clips the norm to `most`, and whether the norm is not finite. Other
// blocks of this launch may have written the partial sums, so the loads bypass L1.
__device__ __forceinline__ void norm_of_blocks(const double* partial /* [m] */, unsigned m, double most,
                                               const float* loss_scale /* [1] or null */, double* norm /* [1] */, float* clip /* [1] */,
                                               unsigned* found /* [1] */) {
    double sum = 0.0;
    // The additions keep their order, though several loads are in flight at once.
#pragma unroll 8
    for (unsigned i = threadIdx.x; i < m; i += THREADS) sum += __ldcg(partial + i);
    sum = block_sum<THREADS>(sum);
    if (threadIdx.x == 0) {
        const double value = sqrt(sum) / (loss_scale ? (double)*loss_scale : 1.0);
        const double factor = most / (value + 1e-6);
        *norm = value;
        // fmin would turn a NaN into 1.
        *clip = factor > 1.0 ? 1.0f : (float)factor;
        *found = !isfinite(value);
    }
}
