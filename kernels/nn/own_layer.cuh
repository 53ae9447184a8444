// Code that is compiled before the first line of a learner's own layer: the element type T, the sizes of a sample, the index of an
// element, and sums over a block. Compiled with IN (the type of activations), CHANNELS_FIRST, THREADS and the sizes SIZE_C, SIZE_H,
// SIZE_W of the input and OUT_C, OUT_H, OUT_W of the output; a vector of features is an image of one pixel with as many channels.
#pragma once

// The namespace leaves the names of these helpers free for the learner's own functions.
namespace warpbook {
#include "matmul/gemm.cuh"
}

// The host's headers define these macros, but NVRTC has no host headers.
#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif
#ifndef NAN
#define NAN __int_as_float(0x7fffffff)
#endif

// An element of x, y and their gradients. Read it into a float, compute in f32, and store the float, which is rounded to T.
#if IN == TYPE_F32
using T = float;
#else
struct T {
    unsigned short bits;
    T() = default;
    __device__ __forceinline__ T(float v) : bits(warpbook::from_float<warpbook::In>(v).bits) {}
    __device__ __forceinline__ operator float() const { return warpbook::to_float(warpbook::In{bits}); }
};
#endif

// The sizes of a sample of x and dx.
constexpr unsigned CHANNELS = SIZE_C, HEIGHT = SIZE_H, WIDTH = SIZE_W, SAMPLE = CHANNELS * HEIGHT * WIDTH;
// The sizes of a sample of y and dy.
constexpr unsigned OUT_CHANNELS = OUT_C, OUT_HEIGHT = OUT_H, OUT_WIDTH = OUT_W, OUT_SAMPLE = OUT_CHANNELS * OUT_HEIGHT * OUT_WIDTH;

// The position of an element: sample, channel, row and column.
struct Place {
    unsigned n, c, y, x;
};

namespace warpbook {
template <unsigned C, unsigned H, unsigned W> __device__ __forceinline__ unsigned index_of(unsigned n, unsigned c, unsigned y, unsigned x) {
#if CHANNELS_FIRST
    return ((n * C + c) * H + y) * W + x;
#else
    return ((n * H + y) * W + x) * C + c;
#endif
}

template <unsigned C, unsigned H, unsigned W> __device__ __forceinline__ Place place_of(unsigned i) {
#if CHANNELS_FIRST
    return {i / (C * H * W), i / (H * W) % C, i / W % H, i % W};
#else
    return {i / (C * H * W), i % C, i / (C * W) % H, i / C % W};
#endif
}
}  // namespace warpbook

// The index of an element of x and dx; place() returns the position of element i. Depending on CHANNELS_FIRST, the layout of images is
// [sample][row][column][channel] or [sample][channel][row][column].
__device__ __forceinline__ unsigned index(unsigned n, unsigned c, unsigned y = 0, unsigned x = 0) {
    return warpbook::index_of<CHANNELS, HEIGHT, WIDTH>(n, c, y, x);
}
__device__ __forceinline__ Place place(unsigned i) { return warpbook::place_of<CHANNELS, HEIGHT, WIDTH>(i); }

// The index of an element of y and dy; out_place() returns the position of element i.
__device__ __forceinline__ unsigned out_index(unsigned n, unsigned c, unsigned y = 0, unsigned x = 0) {
    return warpbook::index_of<OUT_CHANNELS, OUT_HEIGHT, OUT_WIDTH>(n, c, y, x);
}
__device__ __forceinline__ Place out_place(unsigned i) { return warpbook::place_of<OUT_CHANNELS, OUT_HEIGHT, OUT_WIDTH>(i); }

namespace warpbook {
template <class Join> __device__ __forceinline__ float over_block(float v, Join join) {
    __shared__ float of_warps[THREADS / 32];
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) v = join(v, __shfl_xor_sync(0xffffffffu, v, offset));
    __syncthreads();  // All threads have read the results of the previous call.
    if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = v;
    __syncthreads();
    v = of_warps[0];
    for (int warp = 1; warp < THREADS / 32; ++warp) v = join(v, of_warps[warp]);
    return v;
}
}  // namespace warpbook

// Returns the sum (block_sum) or maximum (block_max) over the threads of a block to every thread, computed in the same order on every run.
// All threads of the block must call the function.
__device__ __forceinline__ float block_sum(float v) {
    return warpbook::over_block(v, [](float a, float b) { return a + b; });
}
__device__ __forceinline__ float block_max(float v) {
    return warpbook::over_block(v, [](float a, float b) { return a > b || a != a ? a : b; });
}

// Removes short macro names, so that the learner's source may use these names.
#undef IN
#undef OUT
#undef TRANS_A
#undef TRANS_B
#undef EPILOGUE
