// Idea: windows that touch but do not overlap: each thread reads or writes one whole window, 16 bytes of channels wide, exactly once.
// Formula: pool.cu's maximum, stride = window size, no padding; images [batch][h][w][c] of type IN; index u8, shaped like y.
// Since the last rung: not a rung; pool.cu's result in 16-byte words; the backward pass includes the dropout after the pool and the ReLU before it.
// Needs: channels a multiple of 16 bytes; arrays 16-byte aligned, index 8-byte aligned; fewer than 2^32 elements.
// Expect: DRAM bandwidth: forward moves x, y and index once; backward dy, index, mask and dx once.
#include "launch.cuh"
#include "nn/elements.cuh"
#include "xray.cuh"

struct Pool {
    unsigned batch, channels;
    unsigned h, w;    // height and width of x
    unsigned oh, ow;  // height and width of y
    unsigned kh, kw, sh, sw, ph, pw;
};

// The position of a thread's window.
struct Window {
    unsigned channel, column, row, image;
};

// Returns window i of a grid of h x w in each image, for one group of channels.
__device__ __forceinline__ Window window(unsigned i, unsigned channels, unsigned h, unsigned w) {
    const unsigned groups = channels / GROUP;
    Window at;
    at.channel = i % groups * GROUP, i /= groups;
    at.column = i % w, i /= w;
    at.row = i % h, at.image = i / h;
    return at;
}

// The places of the maxima of a group of channels, one byte each.
union Indices {
    unsigned words[GROUP / 4];
    unsigned char of[GROUP];
};

extern "C" __global__ void __launch_bounds__(THREADS)
max_forward_adjacent(Pool g, const In* __restrict__ x /* images of h x w */, In* __restrict__ y /* images of oh x ow */,
                     unsigned char* __restrict__ index /* as y */, unsigned n /* windows times groups */) {
    MARK_BEGIN(max_forward_adjacent);
    wait_for_predecessor();
    let_successor_start();
    const unsigned i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= n) return;
    MARK(load);
    const Window at = window(i, g.channels, g.oh, g.ow);
    const In* from = x + ((size_t)(at.image * g.h + at.row * g.kh) * g.w + at.column * g.kw) * g.channels + at.channel;
    float best[GROUP];
    Indices chosen = {};
    for (unsigned r = 0; r < g.kh; ++r) {
        for (unsigned c = 0; c < g.kw; ++c) {
            float v[GROUP];
            unpack(*reinterpret_cast<const uint4*>(from + (size_t)(r * g.w + c) * g.channels), v, In{});
            const unsigned tap = r * g.kw + c;
#pragma unroll
            for (int k = 0; k < GROUP; ++k) {
                // If there is a NaN, it is the maximum, and the last NaN gives the index.
                if (tap == 0 || v[k] > best[k] || v[k] != v[k]) best[k] = v[k], chosen.of[k] = (unsigned char)tap;
            }
        }
    }
    MARK(store);
    const size_t to = (size_t)i * GROUP;
    *reinterpret_cast<uint4*>(y + to) = packed(best, In{});
#pragma unroll
    for (int k = 0; k < GROUP / 4; ++k) reinterpret_cast<unsigned*>(index + to)[k] = chosen.words[k];
    MARK(end);
}

// Windows that begin in the image but extend past its edge have no output, so their elements of dx are zero.
extern "C" __global__ void __launch_bounds__(THREADS)
max_backward_adjacent(Pool g, const unsigned char* __restrict__ index /* images of oh x ow */,
                      const In* __restrict__ dy /* images of oh x ow */, const In* __restrict__ mask /* as dy; or null, and no scale */,
                      In* __restrict__ dx /* images of h x w */, unsigned rows /* ceil(h / kh) */, unsigned columns, unsigned n,
                      float scale /* of dy, before it is rounded */) {
    MARK_BEGIN(max_backward_adjacent);
    wait_for_predecessor();
    let_successor_start();
    const unsigned i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= n) return;
    MARK(load);
    const Window at = window(i, g.channels, rows, columns);
    float gradient[GROUP] = {};
    Indices chosen = {};
    if (at.row < g.oh && at.column < g.ow) {
        const size_t from = ((size_t)(at.image * g.oh + at.row) * g.ow + at.column) * g.channels + at.channel;
        unpack(*reinterpret_cast<const uint4*>(dy + from), gradient, In{});
#pragma unroll
        for (int k = 0; k < GROUP / 4; ++k) chosen.words[k] = reinterpret_cast<const unsigned*>(index + from)[k];
        if (mask) {
            float y[GROUP];
            unpack(*reinterpret_cast<const uint4*>(mask + from), y, In{});
            // If y is NaN, the gradient passes through, as in relu_backward.
#pragma unroll
            for (int k = 0; k < GROUP; ++k) gradient[k] = y[k] <= 0.0f ? 0.0f : gradient[k] * scale;
        }
    }
    MARK(store);
    for (unsigned r = 0; r < g.kh; ++r) {
        const unsigned row = at.row * g.kh + r;
        for (unsigned c = 0; c < g.kw; ++c) {
            const unsigned column = at.column * g.kw + c;
            if (row >= g.h || column >= g.w) continue;
            float v[GROUP];
#pragma unroll
            for (int k = 0; k < GROUP; ++k) v[k] = chosen.of[k] == r * g.kw + c ? gradient[k] : 0.0f;
            const size_t to = ((size_t)(at.image * g.h + row) * g.w + column) * g.channels + at.channel;
            *reinterpret_cast<uint4*>(dx + to) = packed(v, In{});
        }
    }
    MARK(end);
}
