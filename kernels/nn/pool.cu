// Idea: forwards, one thread per output; backwards, one thread per element of dx sums over its windows, so no atomics are needed.
// Formula: y = max or sum / (kh kw) over windows of x; images [batch][h][w][c], or [batch][c][h][w] with CHANNELS_FIRST, of type IN.
// Since the last rung: not a rung; the separate pass of a pooling layer.
// Needs: fewer than 2^32 elements; padding at most half a window; index u8, an element's place in its window, so windows of at most 256.
// Expect: DRAM bandwidth forwards; backwards, every dy is read once for each element of its window, mostly from L1.
#include "launch.cuh"
#include "nn/elements.cuh"
#include "nn/images.cuh"

struct Pool {
    unsigned batch, channels;
    unsigned h, w;    // height and width of x
    unsigned oh, ow;  // height and width of y
    unsigned kh, kw, sh, sw, ph, pw;
};

// Calls work(i, x) for each element of an output's window that is inside the image: i is the place in the window, x the element's index.
template <class Work> __device__ __forceinline__ void each_tap(const Pool& g, Place out, Work work) {
    for (unsigned i = 0; i < g.kh; ++i) {
        // Above the image, the subtraction wraps around to a large number.
        const unsigned row = out.row * g.sh + i - g.ph;
        if (row >= g.h) continue;
        for (unsigned j = 0; j < g.kw; ++j) {
            const unsigned column = out.column * g.sw + j - g.pw;
            if (column < g.w) work(i * g.kw + j, element({out.image, out.channel, row, column}, g.channels, g.h, g.w));
        }
    }
}

// Calls work(i, y) in order for each output whose window contains an element of x: i is the element's place in the window, y the output's index.
template <class Work> __device__ __forceinline__ void each_window(const Pool& g, Place in, Work work) {
    const unsigned row = in.row + g.ph, column = in.column + g.pw;  // coordinates in the padded image
    const unsigned first_row = row < g.kh ? 0 : (row - g.kh) / g.sh + 1, last_row = min(row / g.sh, g.oh - 1);
    const unsigned first_column = column < g.kw ? 0 : (column - g.kw) / g.sw + 1, last_column = min(column / g.sw, g.ow - 1);
    for (unsigned oy = first_row; oy <= last_row; ++oy) {
        for (unsigned ox = first_column; ox <= last_column; ++ox) {
            const unsigned tap = (row - oy * g.sh) * g.kw + (column - ox * g.sw);
            work(tap, element({in.image, in.channel, oy, ox}, g.channels, g.oh, g.ow));
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
max_forward(Pool g, const In* __restrict__ x /* [images of h x w] */, In* __restrict__ y /* [images of oh x ow] */,
            unsigned char* __restrict__ index /* [images of oh x ow] */, unsigned n /* of y */) {
    wait_for_predecessor();
    let_successor_start();
    const unsigned long long at = blockIdx.x * (unsigned long long)THREADS + threadIdx.x;
    if (at >= n) return;
    const unsigned i = (unsigned)at;
    float best = 0.0f;
    unsigned chosen = 0;
    bool first = true;
    each_tap(g, place(i, g.channels, g.oh, g.ow), [&](unsigned tap, unsigned from) {
        const float v = to_float(x[from]);
        // If there is a NaN, it is the maximum, and the last NaN gives the index.
        if (first || v > best || v != v) best = v, chosen = tap;
        first = false;
    });
    y[i] = from_float<In>(best);
    index[i] = (unsigned char)chosen;
}

extern "C" __global__ void __launch_bounds__(THREADS)
max_backward(Pool g, const unsigned char* __restrict__ index /* [images of oh x ow] */,
             const In* __restrict__ dy /* [images of oh x ow] */, In* __restrict__ dx /* [images of h x w] */, unsigned n /* of dx */) {
    wait_for_predecessor();
    let_successor_start();
    const unsigned long long at = blockIdx.x * (unsigned long long)THREADS + threadIdx.x;
    if (at >= n) return;
    const unsigned i = (unsigned)at;
    float sum = 0.0f;
    each_window(g, place(i, g.channels, g.h, g.w), [&](unsigned tap, unsigned from) {
        if (index[from] == tap) sum += to_float(dy[from]);
    });
    dx[i] = from_float<In>(sum);
}

extern "C" __global__ void __launch_bounds__(THREADS)
average_forward(Pool g, const In* __restrict__ x /* [images of h x w] */, In* __restrict__ y /* [images of oh x ow] */,
                unsigned n /* of y */) {
    wait_for_predecessor();
    let_successor_start();
    const unsigned long long at = blockIdx.x * (unsigned long long)THREADS + threadIdx.x;
    if (at >= n) return;
    const unsigned i = (unsigned)at;
    float sum = 0.0f;
    each_tap(g, place(i, g.channels, g.oh, g.ow), [&](unsigned, unsigned from) { sum += to_float(x[from]); });
    y[i] = from_float<In>(sum / (float)(g.kh * g.kw));
}

extern "C" __global__ void __launch_bounds__(THREADS)
average_backward(Pool g, const In* __restrict__ dy /* [images of oh x ow] */, In* __restrict__ dx /* [images of h x w] */,
                 unsigned n /* of dx */) {
    wait_for_predecessor();
    let_successor_start();
    const unsigned long long at = blockIdx.x * (unsigned long long)THREADS + threadIdx.x;
    if (at >= n) return;
    const unsigned i = (unsigned)at;
    const float size = (float)(g.kh * g.kw);
    float sum = 0.0f;
    each_window(g, place(i, g.channels, g.h, g.w), [&](unsigned, unsigned from) { sum += to_float(dy[from]) / size; });
    dx[i] = from_float<In>(sum);
}
