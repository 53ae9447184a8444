// A convolution as a matrix product: the elements of its operands, without a matrix of patches in memory.
//
// A pixel of a grid and a tap of the window name an element of an image, or a zero outside of it:
//
//   forwards  y[pixel][o] = sum over taps q of x(pixel, q) w[o][q]            the grid is that of y, the image x
//   dx        dx[pixel][c] = sum over taps q of dy(pixel, q) w'[q][c]         the grid is that of x, the image dy, the window mirrored
//   dw        dw[o][q] = sum over pixels of dy[pixel][o] x(pixel, q)          as forwards
//
// Taps are ordered (i, j, channel), or (channel, i, j) with CHANNELS_FIRST, as weights are. A stride s of the convolution lies, for dx,
// between the pixels of dy: it is read as if there were s - 1 zeros between them (DILATED).
#pragma once
#include "nn/activate.cuh"

#ifndef DILATED
#define DILATED 0
#endif
// The grid's pixels are ordered along m by windows of 2 x 2, as maxima.cuh takes them, and the grid is one of windows.
#ifndef POOL
#define POOL 0
#endif

// Division of numbers below 2^31 by a number that is known before the launch: the upper half of a product (Granlund and Montgomery,
// "Division by invariant integers using multiplication", PLDI 1994).
struct Divisor {
    unsigned value, multiplier, shift;

    __device__ __forceinline__ unsigned of(unsigned n) const { return value == 1 ? n : __umulhi(n, multiplier) >> shift; }
};

// The parts that a pixel and a tap add to an element's position. Rows, columns and offsets wrap around below 0 to large numbers.
struct Pixel {
    unsigned offset, row, column;
};
struct Tap {
    unsigned offset, row, column;
};

struct Patches {
    unsigned pixels, taps;                 // the number of each; POOL: windows, not pixels
    unsigned h, w;                         // sizes of the image, with the zeros between its pixels
    unsigned image, row, column, channel;  // elements from one to the next
    unsigned sh, sw, ph, pw;               // from a pixel of the grid to the next; zeros before the image
    Divisor grid, grid_row;                // pixels of the grid in an image, and in a row
    Divisor inner;                         // taps in one (i, j): the channels; with CHANNELS_FIRST the taps in one channel
    Divisor kw;
    Divisor dh, dw;  // DILATED: from a pixel of the image to the next

    // Pixels from `end` on count as outside of the image.
    __device__ __forceinline__ Pixel pixel(unsigned p, unsigned end) const {
        // Of sixteen pixels the first eight are upper rows, and every other one is a right column.
        const unsigned lower = p / 8 % 2, right = p % 2;
        if (POOL) p = p / 16 * 4 + p % 8 / 2;
        const unsigned of_image = grid.of(p), in_image = p - of_image * grid.value;
        unsigned y = grid_row.of(in_image), x = in_image - y * grid_row.value;
        if (POOL) y = y * 2 + lower, x = x * 2 + right;
        Pixel at = {of_image * image, y * sh - ph, x * sw - pw};
        if (!DILATED) at.offset += at.row * row + at.column * column;
        if (p >= end) at.row = 1u << 31;
        return at;
    }

    __device__ __forceinline__ Tap tap(unsigned q) const {
        const unsigned outer = inner.of(q), rest = q - outer * inner.value;
        const unsigned place = CHANNELS_FIRST ? rest : outer, of_channel = CHANNELS_FIRST ? outer : rest;
        const unsigned i = kw.of(place);
        Tap at = {of_channel * channel, i, place - i * kw.value};
        if (!DILATED) at.offset += at.row * row + at.column * column;
        // Sides are below 2^24, so no pixel's row brings this tap back into the image.
        if (q >= taps) at.row = 1u << 30;
        return at;
    }

    // Returns true if the element is inside the image, and sets `at` to its index.
    __device__ __forceinline__ bool find(const Pixel& pixel, const Tap& tap, unsigned& at) const {
        const unsigned r = pixel.row + tap.row, c = pixel.column + tap.column;
        at = pixel.offset + tap.offset;
        bool inside = r < h && c < w;
        if (DILATED) {
            const unsigned y = dh.of(r), x = dw.of(c);
            inside = inside && y * dh.value == r && x * dw.value == c;
            at += y * row + x * column;
        }
        return inside;
    }
};

// An operand of a product defines its indices along m or n (outer) and along k (inner), the element that a pair of indices names, and
// how many indices there are: larger ones are outside.

// Patches with pixels along m: for the forward pass and dx.
struct PixelsByTaps {
    using Outer = Pixel;
    using Inner = Tap;
    const In* array;
    const Patches& g;
    // POOL: pixels past the last window are found outside of the image.
    __device__ __forceinline__ unsigned outers() const { return POOL ? ~0u : g.pixels; }
    __device__ __forceinline__ unsigned inners() const { return g.taps; }
    __device__ __forceinline__ Pixel outer(unsigned pixel) const { return g.pixel(pixel, g.pixels); }
    __device__ __forceinline__ Tap inner(unsigned tap) const { return g.tap(tap); }
    __device__ __forceinline__ bool find(const Pixel& pixel, const Tap& tap, unsigned& at) const { return g.find(pixel, tap, at); }
};

// Patches with taps along n and pixels up to `end` along k: for dw.
struct TapsByPixels {
    using Outer = Tap;
    using Inner = Pixel;
    const In* array;
    const Patches& g;
    unsigned end;
    __device__ __forceinline__ unsigned outers() const { return g.taps; }
    __device__ __forceinline__ unsigned inners() const { return end; }
    __device__ __forceinline__ Tap outer(unsigned tap) const { return g.tap(tap); }
    __device__ __forceinline__ Pixel inner(unsigned pixel) const { return g.pixel(pixel, end); }
    __device__ __forceinline__ bool find(const Tap& tap, const Pixel& pixel, unsigned& at) const { return g.find(pixel, tap, at); }
};

// The part of an index in an element's offset, and whether the index is inside its array.
struct Part {
    unsigned offset;
    bool inside;
};

struct Separable {
    using Outer = Part;
    using Inner = Part;
    __device__ __forceinline__ static bool find(const Part& outer, const Part& inner, unsigned& at) {
        at = outer.offset + inner.offset;
        return outer.inside && inner.inside;
    }
};

// Weights [o][taps]: for the forward pass.
struct Weights : Separable {
    const In* array;
    unsigned filters, taps;
    __device__ __forceinline__ Weights(const In* array, unsigned filters, unsigned taps) : array(array), filters(filters), taps(taps) {}
    __device__ __forceinline__ unsigned outers() const { return filters; }
    __device__ __forceinline__ unsigned inners() const { return taps; }
    __device__ __forceinline__ Part outer(unsigned o) const { return {o * taps, o < filters}; }
    __device__ __forceinline__ Part inner(unsigned tap) const { return {tap, tap < taps}; }
};

// Weights with channels along n, and along k the taps of a window on dy, mirrored: for dx.
struct MirroredWeights : Separable {
    const In* array;
    const Patches& g;  // of dy
    unsigned channels, filters, window;
    __device__ __forceinline__ MirroredWeights(const In* array, const Patches& g, unsigned channels, unsigned filters, unsigned window)
        : array(array), g(g), channels(channels), filters(filters), window(window) {}
    __device__ __forceinline__ unsigned outers() const { return channels; }
    __device__ __forceinline__ unsigned inners() const { return g.taps; }
    __device__ __forceinline__ Part outer(unsigned c) const { return {CHANNELS_FIRST ? c * window : c, c < channels}; }
    __device__ __forceinline__ Part inner(unsigned tap) const {
        const unsigned first = g.inner.of(tap), rest = tap - first * g.inner.value;
        const unsigned o = CHANNELS_FIRST ? first : rest, place = window - 1 - (CHANNELS_FIRST ? rest : first);
        return {CHANNELS_FIRST ? o * channels * window + place : (o * window + place) * channels, tap < g.taps};
    }
};

// dy with filters along m and pixels up to `end` along k: for dw.
struct FiltersByPixels : Separable {
    const In* array;
    const Patches& g;  // of x
    unsigned filters, end;
    __device__ __forceinline__ FiltersByPixels(const In* array, const Patches& g, unsigned filters, unsigned end)
        : array(array), g(g), filters(filters), end(end) {}
    __device__ __forceinline__ unsigned outers() const { return filters; }
    __device__ __forceinline__ unsigned inners() const { return end; }
    __device__ __forceinline__ Part outer(unsigned o) const { return {CHANNELS_FIRST ? o * g.grid.value : o, o < filters}; }
    __device__ __forceinline__ Part inner(unsigned pixel) const {
        if (!CHANNELS_FIRST) return {pixel * filters, pixel < end};
        const unsigned image = g.grid.of(pixel);
        return {image * (filters - 1) * g.grid.value + pixel, pixel < end};
    }
};

// C of a product, [m][n]. IMAGES: C is an array of images of `pixels` with n channels, and m counts their pixels. One of bias, ReLU and mask may follow.
template <class T, bool IMAGES>
struct Result {
    static constexpr bool BY_CHANNEL = IMAGES && CHANNELS_FIRST;
    T* array;
    unsigned m, n;
    Divisor pixels;
    const float* bias;  // [n], or null
    unsigned relu;
    const T* mask;  // as the array, or null

    // The index of a row's first element, and the distance between its elements.
    __device__ __forceinline__ unsigned row(unsigned i) const {
        return BY_CHANNEL ? pixels.of(i) * (n - 1) * pixels.value + i : i * n;
    }
    __device__ __forceinline__ unsigned step() const { return BY_CHANNEL ? pixels.value : 1; }

    __device__ __forceinline__ float activated(float v, float add) const { return activate(v, add, least_of(relu)); }
    __device__ __forceinline__ float bias_of(unsigned column) const { return bias && column < n ? bias[column] : 0.0f; }
    // Like relu_backward, this passes v where the mask is NaN.
    __device__ __forceinline__ float masked(float v, unsigned at) const {
        return mask && to_float(mask[at]) <= 0.0f ? 0.0f : v;
    }
    __device__ __forceinline__ void store(unsigned row_at, unsigned column, float v, float add) const {
        const unsigned at = row_at + column * step();
        array[at] = from_float<T>(masked(activated(v, add), at));
    }
};
