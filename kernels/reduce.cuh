// Sums of several values at once over a warp or a block. Every value is added in the same order on every run, so that results
// repeat bit for bit.
#pragma once

constexpr int WARP = 32;
constexpr unsigned ALL_LANES = 0xffffffffu;

// Adds up v[0..N) over the warp; every lane gets the sums.
template <int N>
__device__ __forceinline__ void warp_sum(float (&v)[N]) {
#pragma unroll
    for (int offset = WARP / 2; offset > 0; offset /= 2) {
#pragma unroll
        for (int k = 0; k < N; ++k) v[k] += __shfl_xor_sync(ALL_LANES, v[k], offset);
    }
}

// Adds up v[0..N) over a block of BLOCK threads; the sums are in the first warp. Call it once per kernel: the scratch memory is
// not protected against a second call.
template <int BLOCK, int N>
__device__ __forceinline__ void block_sum(float (&v)[N]) {
    static_assert(BLOCK % WARP == 0 && BLOCK <= WARP * WARP, "the second stage is one warp with a lane for each warp");
    constexpr int WARPS = BLOCK / WARP;
    __shared__ float scratch[N][WARPS];
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    warp_sum(v);
    if (lane == 0) {
#pragma unroll
        for (int k = 0; k < N; ++k) scratch[k][warp] = v[k];
    }
    __syncthreads();
    if (warp == 0) {
#pragma unroll
        for (int k = 0; k < N; ++k) v[k] = lane < WARPS ? scratch[k][lane] : 0.0f;
        warp_sum(v);
    }
}

// Adds up two values over the warp in five shuffles instead of ten: the lower half of the lanes gets the sum of a, the upper half the sum of b.
__device__ __forceinline__ float warp_sum_pair(float a, float b) {
    const bool upper = threadIdx.x & (WARP / 2);
    float v = upper ? b : a;
    v += __shfl_xor_sync(ALL_LANES, upper ? a : b, WARP / 2);
#pragma unroll
    for (int offset = WARP / 4; offset > 0; offset /= 2) v += __shfl_xor_sync(ALL_LANES, v, offset);
    return v;
}

// Adds up each of v[0..N) over the warp, N a power of two up to 32, in about N shuffles instead of 5 N: in each step every lane
// hands half of its values to a lane of the other half. Lane l gets the sum of v[l * N / 32].
template <int N, int OFFSET = WARP / 2>
__device__ __forceinline__ float warp_sum_scattered(float (&v)[N]) {
    static_assert(N >= 1 && N <= WARP && (N & (N - 1)) == 0, "halved until one is left");
    if constexpr (N == 1) {
        float sum = v[0];
#pragma unroll
        for (int offset = OFFSET; offset > 0; offset /= 2) sum += __shfl_xor_sync(ALL_LANES, sum, offset);
        return sum;
    } else {
        const bool upper = threadIdx.x & OFFSET;
        float half[N / 2];
#pragma unroll
        for (int k = 0; k < N / 2; ++k) {
            const float sent = upper ? v[k] : v[k + N / 2];
            half[k] = (upper ? v[k + N / 2] : v[k]) + __shfl_xor_sync(ALL_LANES, sent, OFFSET);
        }
        return warp_sum_scattered<N / 2, OFFSET / 2>(half);
    }
}
