// The gradient of maxima over windows of 2 x 2 next to each other, expanded to the windows' pixels in registers.
//
// The bits are those that max_backward_adjacent of pool_adjacent.cu stores, but they take no memory.
#pragma once
#include "nn/maxima.cuh"

// Arrays with one element for each maximum.
template <class T>
struct PooledGradient {
    const T *dy, *mask;  // the mask may be null: no ReLU was before the pool, and the scale is 1
    const unsigned char* index;
    float scale;  // scale of dy before it is rounded: that of a dropout, whose zeros are in the mask
};

// Sets all bits of each half whose byte has its highest bit set, for the first two bytes or the last two.
__device__ __forceinline__ unsigned first_signs(unsigned bytes) {
    unsigned halves;
    asm("prmt.b32 %0, %1, %1, 0x9988;" : "=r"(halves) : "r"(bytes));
    return halves;
}
__device__ __forceinline__ unsigned last_signs(unsigned bytes) {
    unsigned halves;
    asm("prmt.b32 %0, %1, %1, 0xbbaa;" : "=r"(halves) : "r"(bytes));
    return halves;
}

// Eight adjacent elements of a window's gradient, for one of its pixels and that pixel's neighbour in the same row.
template <class T>
struct Unpooled {
    uint4 dy, mask;
    uint2 index;

    // Loads from element `from`, a multiple of 8; arrays lie at multiples of 16 bytes, index at one of 8. Zeros where the pixel is in no window.
    __device__ __forceinline__ void fetch(const PooledGradient<T>& of, unsigned from, bool is_inside) {
        dy = make_uint4(0, 0, 0, 0), index = make_uint2(0, 0);
        mask = make_uint4(~0u, ~0u, ~0u, ~0u);  // NaN: the gradient passes
        if (!is_inside) return;
        dy = *reinterpret_cast<const uint4*>(of.dy + from), index = *reinterpret_cast<const uint2*>(of.index + from);
        if (of.mask) mask = *reinterpret_cast<const uint4*>(of.mask + from);
    }

    // The gradient of the maxima, scaled, and 0 where the mask is at most 0.
    __device__ __forceinline__ void words(unsigned (&words)[4], float scale) const {
        const unsigned d[4] = {dy.x, dy.y, dy.z, dy.w}, m[4] = {mask.x, mask.y, mask.z, mask.w};
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            words[j] = d[j];
            if (scale != 1.0f) {
                const T low{(unsigned short)d[j]}, high{(unsigned short)(d[j] >> 16)};
                words[j] = pack(T{}, to_float(low) * scale, to_float(high) * scale);
            }
            words[j] &= larger(m[j], 0, T{});
        }
    }

    // The part of these words that belongs to one pixel of the window, given by its row and column modulo 2.
    __device__ __forceinline__ uint4 at(const unsigned (&words)[4], unsigned row, unsigned column) const {
        // A byte of `index` has its maximum's row in bit 1 and column in bit 0. The top bit ends up set where both are this pixel's.
        row = row % 2 ? 0 : 0x80808080u, column = column % 2 ? 0 : 0x80808080u;
        const unsigned first = (index.x << 6 ^ row) & (index.x << 7 ^ column), last = (index.y << 6 ^ row) & (index.y << 7 ^ column);
        return make_uint4(words[0] & first_signs(first), words[1] & last_signs(first), words[2] & first_signs(last),
                          words[3] & last_signs(last));
    }
};
