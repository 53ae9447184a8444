// A convolution as a matrix product: locates the elements of the operands, without a matrix of patches in memory.
//
// A pixel of a grid and a tap of the window determine an element of an image, or a zero outside the image:
//
//   forwards  y[pixel][o] = sum over taps q of x(pixel, q) w[o][q]            the grid is y, the image x
//   dx        dx[pixel][c] = sum over taps q of dy(pixel, q) w'[q][c]         the grid is x, the image dy, the window mirrored
//   dw        dw[o][q] = sum over pixels of dy[pixel][o] x(pixel, q)          the grid is y, the image x
//
// Taps have the order of the weights: (i, j, channel), or (channel, i, j) with CHANNELS_FIRST. For dx, a convolution with stride s reads dy
// as if there were s - 1 zeros between neighbouring pixels of dy (DILATED).
#pragma once
#include "nn/activate.cuh"

#ifndef DILATED
#define DILATED 0
#endif
// With POOL, the pixels along m are ordered by windows of 2 x 2, as maxima.cuh expects, and `grid` and `grid_row` count windows.
#ifndef POOL
#define POOL 0
#endif

// Divides numbers below 2^31 by a number that is known before the launch, with the upper half of a product (Granlund and Montgomery,
// "Division by invariant integers using multiplication", PLDI 1994).
struct Divisor {
    unsigned value, multiplier, shift;

    __device__ __forceinline__ unsigned of(unsigned n) const { return value == 1 ? n : __umulhi(n, multiplier) >> shift; }
};

// The contribution of a pixel to the position of an element; Tap has the other part. Values below 0 wrap around to large numbers.
struct Pixel {
    unsigned offset, row, column;
};
struct Tap {
    unsigned offset, row, column;
};

struct Patches {
    unsigned pixels, taps;                 // number of pixels and of taps; with POOL, `pixels` counts windows
    unsigned h, w;                         // sizes of the image, including the zeros between its pixels
    unsigned image, row, column, channel;  // distances in elements from one image, row, column or channel to the next
    unsigned sh, sw, ph, pw;               // strides between pixels of the grid; zeros before the image
    Divisor grid, grid_row;                // pixels of the grid per image, and per row
    Divisor inner;                         // taps per (i, j): the channels; with CHANNELS_FIRST, taps per channel
    Divisor kw;
    Divisor dh, dw;  // DILATED: distances between pixels of the image, in rows and columns

    // Pixels from `end` on count as outside the image.
    __device__ __forceinline__ Pixel pixel(unsigned p, unsigned end) const {
        // POOL: of sixteen pixels, the first eight are in upper rows, and every other pixel is in a right column.
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
        // Images have fewer than 2^24 rows, so adding a pixel's row cannot bring this tap back into the image.
        if (q >= taps) at.row = 1u << 30;
        return at;
    }

    // Returns true if the element is inside the image, and sets `at` to the element's index.
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

// An operand of a product defines its indices along m or n (outer) and along k (inner), the element that belongs to a pair of indices,
// and the number of indices; larger indices are outside the operand.

// Patches as operand A of the forward pass and of dx: pixels along m, taps along k.
struct PixelsByTaps {
    using Outer = Pixel;
    using Inner = Tap;
    const In* array;
    const Patches& g;
    // With POOL there is no limit here: find() treats pixels past the last window as outside the image.
    __device__ __forceinline__ unsigned outers() const { return POOL ? ~0u : g.pixels; }
    __device__ __forceinline__ unsigned inners() const { return g.taps; }
    __device__ __forceinline__ Pixel outer(unsigned pixel) const { return g.pixel(pixel, g.pixels); }
    __device__ __forceinline__ Tap inner(unsigned tap) const { return g.tap(tap); }
    __device__ __forceinline__ bool find(const Pixel& pixel, const Tap& tap, unsigned& at) const { return g.find(pixel, tap, at); }
};

// Patches as operand B of dw: taps along n, pixels up to `end` along k.
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

// The contribution of one index to an element's offset, and whether the index is inside the array.
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

// Weights [o][taps] as operand B of the forward pass.
struct Weights : Separable {
    const In* array;
    unsigned filters, taps;
    __device__ __forceinline__ Weights(const In* array, unsigned filters, unsigned taps) : array(array), filters(filters), taps(taps) {}
    __device__ __forceinline__ unsigned outers() const { return filters; }
    __device__ __forceinline__ unsigned inners() const { return taps; }
    __device__ __forceinline__ Part outer(unsigned o) const { return {o * taps, o < filters}; }
    __device__ __forceinline__ Part inner(unsigned tap) const { return {tap, tap < taps}; }
};

// Weights as operand B of dx: channels along n, and along k the taps of the mirrored window on dy.
struct MirroredWeights : Separable {
    const In* array;
    const Patches& g;  // patches of dy
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

// dy as operand A of dw: filters along m, pixels up to `end` along k.
struct FiltersByPixels : Separable {
    const In* array;
    const Patches& g;  // patches of x
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

// The result C of a product, [m][n]. IMAGES: m counts the pixels of images with n channels and `pixels` each. Bias, ReLU and mask are optional.
template <class T, bool IMAGES>
struct Result {
    static constexpr bool BY_CHANNEL = IMAGES && CHANNELS_FIRST;
    T* array;
    unsigned m, n;
    Divisor pixels;
    const float* bias;  // [n], or null
    unsigned relu;
    const T* mask;  // same shape as `array`, or null

    // The index of the first element of row i; step() is the distance between the elements of a row.
    __device__ __forceinline__ unsigned row(unsigned i) const {
        return BY_CHANNEL ? pixels.of(i) * (n - 1) * pixels.value + i : i * n;
    }
    __device__ __forceinline__ unsigned step() const { return BY_CHANNEL ? pixels.value : 1; }

    __device__ __forceinline__ float activated(float v, float add) const { return activate(v, add, least_of(relu)); }
    __device__ __forceinline__ float bias_of(unsigned column) const { return bias && column < n ? bias[column] : 0.0f; }
    // If the mask is NaN, v passes through, as in relu_backward.
    __device__ __forceinline__ float masked(float v, unsigned at) const {
        return mask && to_float(mask[at]) <= 0.0f ? 0.0f : v;
    }
    __device__ __forceinline__ void store(unsigned row_at, unsigned column, float v, float add) const {
        const unsigned at = row_at + column * step();
        array[at] = from_float<T>(masked(activated(v, add), at));
    }
};
