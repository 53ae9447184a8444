// Idea: with few channels, a window is only one or two steps of k, so its elements are gathered into registers from an image in shared memory.
// Formula: y = f(x * w + b); dw[o][q] = sum over pixels of dy[pixel][o] x(pixel, q), db[o] of dy; f16 or bf16 [n][h][w][c], f32 sums.
// Since the last rung: no tiles of patches in shared memory; the bias is one more tap, always 1; the dy of a pooling layer is expanded here.
// Needs: sm_80; taps of all channels at most 16 STEPS, one fewer for a gradient; filters a multiple of 8; a part of an image in shared memory.
// Expect: bound by DRAM or L2: y is written, or dy read, once; with POOL a quarter of that, plus a byte per window for the maximum's place, and a mask.
#include "launch.cuh"
#include "matmul/mma.cuh"
#include "nn/patches.cuh"
#include "nn/unpool.cuh"
#include "xray.cuh"

constexpr unsigned WARPS = THREADS / WARP;

struct Few {
    unsigned units;            // number of units; a unit is a part of an image
    unsigned parts, rows;      // parts per image; rows of y per part
    unsigned h, w_row;         // height of x; elements per row of x
    unsigned oh, ow;           // height and width of y
    unsigned filters, taps;    // number of filters; taps per window, all channels included
    unsigned window_row;       // elements per row of a window: kw channels
    unsigned sh, step;         // distance between windows: in rows, and in elements
    unsigned ph, before;       // zeros before the image: in rows, and in elements
    unsigned height, pitch;    // rows of a part in shared memory; elements per row
    Divisor columns;           // the divisor ow; with POOL, the width of the maxima
};

#if __CUDA_ARCH__ >= 800

constexpr unsigned FILTERS = 32;  // number of filters per block
extern __shared__ __align__(16) unsigned short part[];  // [height][pitch]: a part of an image, with the zeros around it

// A part of an image: the rows of y from `row` on, `pixels` pixels, of which `first` is the first in all images.
struct Unit {
    unsigned image, row, pixels;
    size_t first;
    __device__ __forceinline__ Unit(const Few& g, unsigned at) : image(at / g.parts), row(at % g.parts * g.rows) {
        pixels = row < g.oh ? min(g.rows, g.oh - row) * g.ow : 0;
        first = ((size_t)image * g.oh + row) * g.ow;
    }
};

__device__ __forceinline__ void load_part(const Few& g, const Unit& unit, const unsigned short* x) {
    x += (size_t)unit.image * g.h * g.w_row;
    for (unsigned r = threadIdx.x / WARP; r < g.height; r += WARPS) {
        // Above the image and to its left, the subtraction wraps around to a large number.
        const unsigned row = unit.row * g.sh + r - g.ph;
        for (unsigned e = threadIdx.x % WARP; e < g.pitch; e += WARP) {
            const unsigned from = e - g.before;
            part[r * g.pitch + e] = row < g.h && from < g.w_row ? x[row * g.w_row + from] : (unsigned short)0;
        }
    }
}

// The offset in shared memory of a pixel's window; tap_at() gives the offset of a tap in the window.
__device__ __forceinline__ unsigned window_at(const Few& g, unsigned pixel) {
    const unsigned row = g.columns.of(pixel);
    return row * g.sh * g.pitch + (pixel - row * g.ow) * g.step;
}
__device__ __forceinline__ unsigned tap_at(const Few& g, unsigned tap) {
    const unsigned row = tap / g.window_row;
    return tap < g.taps ? row * g.pitch + tap - row * g.window_row : 0;
}
__device__ __forceinline__ unsigned pair(unsigned short low, unsigned short high) { return low | (unsigned)high << 16; }

// The sums of 16 pixels for 32 filters; with POOL the pixels form four windows of 2 x 2.
struct FewSums {
    float of[4][4] = {};
    __device__ __forceinline__ void words(unsigned (&words)[4], const float (&add)[4][2], float least, int h) const {
        activated_words(words, add, least, In{}, [&](int n, int k) { return of[n][h * 2 + k]; });
    }
};

// A block computes the pixels of a unit for 32 filters, 16 pixels per warp at a time. POOL: it stores maxima, and rows have an even number of pixels.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
few_forward(Few g, const unsigned short* __restrict__ x /* images */, const unsigned short* __restrict__ weight /* [filters][taps] */,
            const float* __restrict__ bias /* [filters], or null */, unsigned relu, In* __restrict__ y /* images; POOL: maxima */
#if POOL
            , unsigned char* __restrict__ index /* as y, or null */
#endif
) {
    MARK_BEGIN(few_forward);
    wait_for_predecessor();
    let_successor_start();
    const unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, row = lane / 4, t = lane % 4;
    const unsigned groups = (g.filters + FILTERS - 1) / FILTERS, column = blockIdx.x % groups * FILTERS;
    const Unit unit(g, blockIdx.x / groups);
    MARK(load);
    load_part(g, unit, x);

    unsigned at[STEPS][4], b[STEPS][4][2];
    float add[4][2];
#pragma unroll
    for (int s = 0; s < STEPS; ++s) {
#pragma unroll
        for (int i = 0; i < 4; ++i) at[s][i] = tap_at(g, s * 16 + i / 2 * 8 + t * 2 + i % 2);
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const unsigned o = column + i / 2 * 8 + row, tap = s * 16 + i % 2 * 8 + t * 2;
            const unsigned short* const from = weight + o * g.taps + tap;
            const bool is_filter = o < g.filters;
            b[s][i / 2][i % 2] = pair(is_filter && tap < g.taps ? from[0] : 0, is_filter && tap + 1 < g.taps ? from[1] : 0);
        }
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const unsigned o = column + i / 2 * 8 + t * 2 + i % 2;
        add[i / 2][i % 2] = bias && o < g.filters ? bias[o] : 0.0f;
    }
    const float least = least_of(relu);
    const bool is_filter = column + t * 8 < g.filters;
    // Multiplies the windows of the thread's two rows, which begin at `windows` in shared memory.
    const auto multiply = [&](FewSums& sums, const unsigned (&windows)[2]) {
#pragma unroll
        for (int s = 0; s < STEPS; ++s) {
            unsigned a[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) a[i] = pair(part[windows[i % 2] + at[s][i / 2 * 2]], part[windows[i % 2] + at[s][i / 2 * 2 + 1]]);
#pragma unroll
            for (int n = 0; n < 4; ++n) mma(sums.of[n], a, b[s][n][0], b[s][n][1]);
        }
    };
    MARK(barrier);
    __syncthreads();

#if POOL
    // A lane has both rows of one column of a window. Lanes with left columns store the first four of eight windows, lanes with right columns the rest.
    const unsigned right = row % 2, width = g.columns.value, height = g.oh / 2;
    const unsigned maxima = unit.row < g.oh ? min(g.rows, g.oh - unit.row) / 2 * width : 0;
    const size_t first_of_unit = ((size_t)unit.image * height + unit.row / 2) * width * g.filters + column + t * 8;
    for (unsigned first = warp * 8; first < maxima; first += WARPS * 8) {
        MARK(multiply);
        Maxima<In> of;
#pragma unroll
        for (int k = 0; k < 2; ++k) {
            const unsigned window = min(first + k * 4 + row / 2, maxima - 1), down = g.columns.of(window), across = window - down * width;
            unsigned windows[2], words[2][4];
#pragma unroll
            for (int h = 0; h < 2; ++h) windows[h] = (down * 2 + h) * g.sh * g.pitch + (across * 2 + right) * g.step;
            FewSums sums;
            multiply(sums, windows);
#pragma unroll
            for (int h = 0; h < 2; ++h) sums.words(words[h], add, least, h);
            of.rows(k, words[0], words[1]);
        }
        MARK(store);
        unsigned best[4], taps[2];
        of.columns(best, taps);
        const unsigned window = first + right * 4 + row / 2;
        if (!is_filter || window >= maxima) continue;
        const size_t to = first_of_unit + (size_t)window * g.filters;
        store_words(y + to, best);
        if (index) store_taps(index + to, taps);
    }
#else
    In* const to = y + unit.first * g.filters + column + t * 8;
#pragma unroll 2
    for (unsigned first = warp * 16; first < unit.pixels; first += WARPS * 16) {
        MARK(multiply);
        unsigned windows[2];
#pragma unroll
        for (int h = 0; h < 2; ++h) windows[h] = window_at(g, min(first + h * 8 + row, unit.pixels - 1));
        FewSums sums;
        multiply(sums, windows);
        MARK(store);
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            unsigned words[4];
            sums.words(words, add, least, h);
            transpose_in_four(words, t);
            const unsigned pixel = first + h * 8 + row;
            if (is_filter && pixel < unit.pixels) store_words(to + (size_t)pixel * g.filters, words);
        }
    }
#endif
    MARK(end);
}

constexpr unsigned ROW = FILTERS * sizeof(In), CHUNKS = ROW / 16;

// The offset in shared memory of a chunk of 8 filters at one of a warp's 16 pixels.
__device__ __forceinline__ unsigned place(unsigned pixel, unsigned chunk) { return pixel * ROW + (chunk ^ pixel / 2 % CHUNKS) * 16; }

// Loads dy of a warp's 16 pixels into shared memory: each lane copies 8 filters of two pixels, or zeros past the last pixel.
#if POOL
// In images of even width, a lane's two pixels share a window. Every other pair of pixels is stored in reverse, so that 8 lanes write to all banks.
struct Gradient {
    const Few& g;
    const PooledGradient<In> dy;
    const unsigned column, pixel, to;  // the lane's first filter; the pixel, of 16, that it stores first; the address of that pixel
    Unpooled<In> next;

    __device__ __forceinline__ Gradient(const Few& g, const PooledGradient<In>& dy, unsigned column, unsigned lane, unsigned buffer)
        : g(g), dy(dy), column(column + lane % CHUNKS * 8), pixel(lane / CHUNKS * 2 + lane / CHUNKS % 2),
          to(buffer + place(pixel, lane % CHUNKS)) {}
    __device__ __forceinline__ void fetch_pixel(const Unit& unit, unsigned at) {
        const unsigned row = g.columns.of(at), down = (unit.row + row) / 2, across = (at - row * g.ow) / 2;
        const unsigned height = g.oh / 2, width = g.ow / 2;
        const bool is_inside = column < g.filters && at < unit.pixels && down < height && across < width;
        next.fetch(dy, ((unit.image * height + down) * width + across) * g.filters + column, is_inside);
    }
    // The gradient at pixel `at`, or, if `right` is 1, at its neighbour in the same window.
    __device__ __forceinline__ uint4 of_pixel(const Unit& unit, const unsigned (&words)[4], unsigned at, unsigned right) const {
        const unsigned row = g.columns.of(at);
        return next.at(words, unit.row + row, (at - row * g.ow) ^ right);
    }
    __device__ __forceinline__ void fetch(const Unit& unit, unsigned first) { fetch_pixel(unit, first + pixel); }
    __device__ __forceinline__ void store(const Unit& unit, unsigned first) {
        unsigned words[4], at = first + pixel;
        next.words(words, dy.scale);
        store_shared(to, of_pixel(unit, words, at, 0));
        if (g.ow % 2) {
            at = first + (pixel ^ 1);
            fetch_pixel(unit, at);
            next.words(words, dy.scale);
        }
        store_shared(to ^ ROW, of_pixel(unit, words, at, g.ow % 2 ? 0 : 1));
    }
};
#else
struct Gradient {
    const Few& g;
    const In* const dy;
    const unsigned pixel, to;
    const bool is_filter;
    uint4 next[2];  // dy of the lane's two pixels, which are 8 pixels apart

    __device__ __forceinline__ Gradient(const Few& g, const In* dy, unsigned column, unsigned lane, unsigned buffer)
        : g(g), dy(dy + column + lane % CHUNKS * 8), pixel(lane / CHUNKS), to(buffer + place(pixel, lane % CHUNKS)),
          is_filter(column + lane % CHUNKS * 8 < g.filters) {}
    __device__ __forceinline__ void fetch(const Unit& unit, unsigned first) {
        const In* const from = dy + unit.first * g.filters;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const unsigned at = first + i * 8 + pixel;
            next[i] = make_uint4(0, 0, 0, 0);
            if (is_filter && at < unit.pixels) next[i] = *reinterpret_cast<const uint4*>(from + (size_t)at * g.filters);
        }
    }
    __device__ __forceinline__ void store(const Unit&, unsigned) { store_shared(to, next[0]), store_shared(to + 8 * ROW, next[1]); }
};
#endif

// A block sums over every n-th unit for 32 filters. The product has taps along m, filters along n and pixels along k; tap number `taps` is the bias.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
few_gradient(Few g, const unsigned short* __restrict__ x /* images */, const In* __restrict__ dy /* images; POOL: of maxima */,
             float* __restrict__ out /* [blocks of a filter]: [filters][taps] of dw, then [filters] of db */
#if POOL
             , const unsigned char* __restrict__ index /* as dy */, const In* __restrict__ mask /* as dy; or null, and no scale */,
             float scale /* of dy, before it is rounded */
#endif
) {
    MARK_BEGIN(few_gradient);
    wait_for_predecessor();
    let_successor_start();
    constexpr unsigned SUMS = STEPS * 16 * FILTERS;
    __shared__ __align__(128) unsigned char gradients[WARPS][16 * ROW];  // dy of each warp's 16 pixels
    __shared__ float totals[SUMS];
    const unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, row = lane / 4, t = lane % 4;
    const unsigned groups = (g.filters + FILTERS - 1) / FILTERS, column = blockIdx.x % groups * FILTERS;
    const unsigned buffer = address_in_shared(gradients[warp]), read = place(lane / 8 % 2 * 8 + lane % 8, lane / 16);
#if POOL
    Gradient gradient(g, {dy, mask, index, scale}, column, lane, buffer);
#else
    Gradient gradient(g, dy, column, lane, buffer);
#endif

    unsigned at[STEPS][2];
    bool is_one[STEPS][2];
#pragma unroll
    for (int i = 0; i < STEPS * 2; ++i) {
        const unsigned tap = i * 8 + row;
        at[i / 2][i % 2] = tap_at(g, tap), is_one[i / 2][i % 2] = tap == g.taps;
    }
    constexpr unsigned one = IN == TYPE_BF16 ? 0x3f803f80u : 0x3c003c00u;  // the number 1, twice
    float sums[STEPS][4][4] = {};
    // The number of blocks is a multiple of the number of groups of filters, so a block keeps its filters for all units.
    unsigned u = blockIdx.x;
    for (; u < g.units * groups; u += gridDim.x) {
        const Unit unit(g, u / groups);
        MARK(load);
        gradient.fetch(unit, warp * 16);
        MARK(barrier);
        __syncthreads();
        MARK(load);
        load_part(g, unit, x);
        MARK(barrier);
        __syncthreads();
        MARK(multiply);
        for (unsigned first = warp * 16; first < unit.pixels; first += WARPS * 16) {
            __syncwarp();
            gradient.store(unit, first);
            __syncwarp();
            gradient.fetch(unit, first + WARPS * 16);
            unsigned windows[4], b[2][4];
#pragma unroll
            for (int i = 0; i < 4; ++i) windows[i] = window_at(g, min(first + i / 2 * 8 + t * 2 + i % 2, unit.pixels - 1));
#pragma unroll
            for (int i = 0; i < 2; ++i) ldmatrix_x4_trans(b[i], buffer + (read ^ i * 32));
#pragma unroll
            for (int s = 0; s < STEPS; ++s) {
                unsigned a[4];
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const unsigned tap = at[s][i % 2], *const two = &windows[i / 2 * 2];
                    const unsigned words = pair(part[two[0] + tap], part[two[1] + tap]);
                    a[i] = is_one[s][i % 2] ? one : words;
                }
#pragma unroll
                for (int n = 0; n < 4; ++n) mma(sums[s][n], a, b[n / 2][n % 2 * 2], b[n / 2][n % 2 * 2 + 1]);
            }
        }
    }
    MARK(reduce);
    // In each round, the warps of one half add the sums of the other half, until one warp has the total. The order is always the same.
    float* const others = reinterpret_cast<float*>(part);  // [WARPS / 2][STEPS * 16][WARP], the lanes' elements adjacent
#pragma unroll
    for (unsigned half = WARPS / 2; half > 0; half /= 2) {
        __syncthreads();
        float* const there = others + warp % half * SUMS + lane;
        const bool gives = warp >= half && warp < 2 * half, takes = warp < half;
#pragma unroll
        for (int i = 0; i < STEPS * 16; ++i) {
            if (gives) there[i * WARP] = sums[i / 16][i % 16 / 4][i % 4];
        }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < STEPS * 16; ++i) {
            if (takes) sums[i / 16][i % 16 / 4][i % 4] += there[i * WARP];
        }
    }
    if (warp == 0) {
#pragma unroll
        for (int i = 0; i < STEPS * 16; ++i) {
            const unsigned tap = i / 16 * 16 + i % 4 / 2 * 8 + row, filter = i % 16 / 4 * 8 + t * 2 + i % 2;
            totals[tap * FILTERS + filter] = sums[i / 16][i % 16 / 4][i % 4];
        }
    }
    MARK(barrier);
    __syncthreads();
    MARK(store);
    out += (size_t)(blockIdx.x / groups) * g.filters * (g.taps + 1);
    for (unsigned i = threadIdx.x; i < SUMS; i += THREADS) {
        const unsigned tap = i / FILTERS, o = column + i % FILTERS;
        if (tap <= g.taps && o < g.filters) out[tap < g.taps ? o * g.taps + tap : g.filters * g.taps + o] = totals[i];
    }
    MARK(end);
}

#endif
