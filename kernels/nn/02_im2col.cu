// Idea: copy each output's patch into a row of a matrix; the convolution is then the project's matrix product.
// Formula: columns[pixel][tap] = x(pixel, tap) or 0; dx[n][h][w][c] = sum of dcolumns over the patches that contain the element.
// Since the last rung: the product's tiles reuse elements that each thread of 01 loaded for itself, at the cost of kh kw copies of x in memory.
// Needs: fewer than 2^31 elements in x, y and a panel's columns, rows of ld elements; NHWC, or NCHW with CHANNELS_FIRST.
// Expect: DRAM bandwidth for the columns, which are written once and read once, and the rate of the matrix product.
#include "launch.cuh"
#include "nn/conv.cuh"
#include "nn/patches.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
unroll(Patches g /* of x */, const In* __restrict__ x /* images */, In* __restrict__ columns /* [pixels][ld] */, unsigned ld,
       unsigned count /* pixels ld */) {
    wait_for_predecessor();
    let_successor_start();
    const unsigned long long at = blockIdx.x * (unsigned long long)THREADS + threadIdx.x;
    if (at >= count) return;
    const unsigned pixel = (unsigned)at / ld, tap = (unsigned)at - pixel * ld;
    unsigned from;
    const bool inside = g.find(g.pixel(pixel, g.pixels), g.tap(tap), from);
    columns[at] = inside ? x[from] : from_float<In>(0.0f);
}

// The backward pass of unroll(). A thread computes one element, so no atomics are needed.
extern "C" __global__ void __launch_bounds__(THREADS)
fold(Conv g, const float* __restrict__ dcolumns /* [positions][ld] */, unsigned ld, const In* __restrict__ mask /* as dx, or null */,
     In* __restrict__ dx /* images */, unsigned count /* of dx */) {
    wait_for_predecessor();
    let_successor_start();
    const unsigned long long at = blockIdx.x * (unsigned long long)THREADS + threadIdx.x;
    if (at >= count) return;
    const Place in = place((unsigned)at, g.channels, g.h, g.w);
    float sum = 0.0f;
    each_use(g, in.row, in.column, [&](unsigned i, unsigned j, unsigned oy, unsigned ox) {
        sum += dcolumns[(size_t)((in.image * g.oh + oy) * g.ow + ox) * ld + weight_at(g, 0, i, j, in.channel)];
    });
    dx[at] = from_float<In>(mask && to_float(mask[at]) <= 0.0f ? 0.0f : sum);
}

// Converts between [image][pixel][channel] and [image][channel][pixel]; `to_rows` makes the first layout the result.
extern "C" __global__ void __launch_bounds__(THREADS)
exchange(const In* __restrict__ from, In* __restrict__ to, unsigned channels, unsigned pixels, unsigned to_rows,
         unsigned count /* images pixels channels */) {
    wait_for_predecessor();
    let_successor_start();
    const unsigned long long at = blockIdx.x * (unsigned long long)THREADS + threadIdx.x;
    if (at >= count) return;
    // The inner and outer dimensions of an image in `to`.
    const unsigned inner = to_rows ? channels : pixels, outer = to_rows ? pixels : channels;
    const unsigned i = (unsigned)at % inner, o = (unsigned)at / inner % outer, image = (unsigned)at / inner / outer;
    to[at] = from[(image * inner + i) * outer + o];
}
