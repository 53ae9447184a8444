// Sums over a warp and over a block, several values at once.
// Every value is added in the same order on every run, so that results repeat to the bit.
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

// Adds up v[0..N) over a block of BLOCK threads; the sums are in the first warp. Once a kernel: the scratch is not protected
// against a second call.
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
