// The shapes of a convolution, and loops over its taps straight from the definition.
#pragma once
#include "nn/images.cuh"

struct Conv {
    unsigned channels, h, w;  // sizes of x
    unsigned filters, oh, ow; // sizes of y
    unsigned kh, kw, sh, sw, ph, pw;
    unsigned positions;  // positions of y in all images: batch oh ow
};

// The index of a weight: [o][i][j][c], or [o][c][i][j] with CHANNELS_FIRST.
__device__ __forceinline__ unsigned weight_at(const Conv& g, unsigned o, unsigned i, unsigned j, unsigned c) {
#if CHANNELS_FIRST
    return ((o * g.channels + c) * g.kh + i) * g.kw + j;
#else
    return ((o * g.kh + i) * g.kw + j) * g.channels + c;
#endif
}

// Calls work(i, j, row, column) for each tap of an output that is inside the image.
template <class Work> __device__ __forceinline__ void each_tap(const Conv& g, unsigned oy, unsigned ox, Work work) {
    for (unsigned i = 0; i < g.kh; ++i) {
        // Above the image, the subtraction wraps around to a large number.
        const unsigned row = oy * g.sh + i - g.ph;
        if (row >= g.h) continue;
        for (unsigned j = 0; j < g.kw; ++j) {
            const unsigned column = ox * g.sw + j - g.pw;
            if (column < g.w) work(i, j, row, column);
        }
    }
}

// Calls work(i, j, oy, ox) for each output (oy, ox) to which an element of x contributes; (i, j) is the tap that multiplies the element.
template <class Work> __device__ __forceinline__ void each_use(const Conv& g, unsigned row, unsigned column, Work work) {
    for (unsigned i = 0; i < g.kh; ++i) {
        // oy sh = row + ph - i, if the right side is a multiple of sh and not negative.
        const unsigned down = row + g.ph - i;
        if (row + g.ph < i || down % g.sh != 0 || down / g.sh >= g.oh) continue;
        for (unsigned j = 0; j < g.kw; ++j) {
            const unsigned across = column + g.pw - j;
            if (column + g.pw < j || across % g.sw != 0 || across / g.sw >= g.ow) continue;
            work(i, j, down / g.sh, across / g.sw);
        }
    }
}
