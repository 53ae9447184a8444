// The gradient of maxima over adjacent 2 x 2 windows, expanded in registers to the pixels of the windows.
//
// The results are bit-identical to those of max_backward_adjacent in pool_adjacent.cu, but are not stored in memory.
#pragma once
#include "nn/maxima.cuh"

// The gradient of the maxima and the arrays needed to expand it. Each array has one element per maximum.
template <class T>
struct PooledGradient {
    const T *dy, *mask;  // `mask` is null if there is no ReLU before the pool; the scale is then 1
    const unsigned char* index;
    float scale;  // factor of dy before rounding: the scale of a dropout, whose zeros are in the mask
};

// Expands the top bits of the first two bytes to 16 bits each. last_signs() does the same for the last two bytes.
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

// The gradient of a window for eight adjacent channels, expanded to one pixel of the window or to its neighbour in the same row.
template <class T>
struct Unpooled {
    uint4 dy, mask;
    uint2 index;

    // Loads 8 elements from element `from`, a multiple of 8, or zeros if the pixel is in no window. Arrays are aligned to 16 bytes, `index` to 8.
    __device__ __forceinline__ void fetch(const PooledGradient<T>& of, unsigned from, bool is_inside) {
        dy = make_uint4(0, 0, 0, 0), index = make_uint2(0, 0);
        mask = make_uint4(~0u, ~0u, ~0u, ~0u);  // a mask of NaN lets the gradient pass
        if (!is_inside) return;
        dy = *reinterpret_cast<const uint4*>(of.dy + from), index = *reinterpret_cast<const uint2*>(of.index + from);
        if (of.mask) mask = *reinterpret_cast<const uint4*>(of.mask + from);
    }

    // Computes the gradient of the maxima: scaled, and set to 0 where the mask is 0 or less.
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

    // Keeps the gradients whose maximum is at this pixel of the window, and sets the others to 0. Only row and column modulo 2 matter.
    __device__ __forceinline__ uint4 at(const unsigned (&words)[4], unsigned row, unsigned column) const {
        // A byte of `index` has the row of the maximum in bit 1 and its column in bit 0. The top bit ends up set if both match this pixel.
        row = row % 2 ? 0 : 0x80808080u, column = column % 2 ? 0 : 0x80808080u;
        const unsigned first = (index.x << 6 ^ row) & (index.x << 7 ^ column), last = (index.y << 6 ^ row) & (index.y << 7 ^ column);
        return make_uint4(words[0] & first_signs(first), words[1] & last_signs(first), words[2] & first_signs(last),
                          words[3] & last_signs(last));
    }
};
