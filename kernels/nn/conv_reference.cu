// Idea: every result of a convolution is checked against an f64 result straight from the definition.
// Formula: want = y, dx or dw, sizes = the same sums of magnitudes, f64, in the order of the checked array; images NHWC, weights [o][i][j][c].
// Since the last rung: not a rung; it checks the rungs.
// Needs: fewer than 2^31 elements; the same arrays as the checked kernel; TF32 = 1 truncates factors to the bits that tensor cores read.
// Expect: bound by FP64 throughput or L1: one thread per element of y or dx, one block per element of dw.
#include "launch.cuh"
#include "nn/conv.cuh"
#include "nn/elements.cuh"
#include "nn/sums.cuh"

__device__ __forceinline__ double factor(In v) {
    const float f = to_float(v);
    return TF32 ? __uint_as_float(__float_as_uint(f) & ~0x1fffu) : f;
}

struct Sum {
    double value = 0.0, size = 0.0;
    __device__ __forceinline__ void add(In a, In b) {
        const double u = factor(a), v = factor(b);
        value = fma(u, v, value), size = fma(fabs(u), fabs(v), size);
    }
};

extern "C" __global__ void __launch_bounds__(THREADS)
reference_forward(Conv g, const In* __restrict__ x /* [n][h][w][c] */, const In* __restrict__ weight /* [o][kh][kw][c] */,
                  double* __restrict__ want /* [n][oh][ow][o] */, double* __restrict__ sizes /* as want */, unsigned count) {
    const unsigned long long at = blockIdx.x * (unsigned long long)THREADS + threadIdx.x;
    if (at >= count) return;
    const Place out = place((unsigned)at, g.filters, g.oh, g.ow);
    Sum sum;
    each_tap(g, out.row, out.column, [&](unsigned i, unsigned j, unsigned row, unsigned column) {
        const In* const pixel = x + element({out.image, 0, row, column}, g.channels, g.h, g.w);
        const In* const tap = weight + weight_at(g, out.channel, i, j, 0);
        for (unsigned c = 0; c < g.channels; ++c) sum.add(pixel[c], tap[c]);
    });
    want[at] = sum.value, sizes[at] = sum.size;
}

extern "C" __global__ void __launch_bounds__(THREADS)
reference_input_gradient(Conv g, const In* __restrict__ dy /* [n][oh][ow][o] */, const In* __restrict__ weight /* [o][kh][kw][c] */,
                         double* __restrict__ want /* [n][h][w][c] */, double* __restrict__ sizes /* as want */, unsigned count) {
    const unsigned long long at = blockIdx.x * (unsigned long long)THREADS + threadIdx.x;
    if (at >= count) return;
    const Place in = place((unsigned)at, g.channels, g.h, g.w);
    Sum sum;
    each_use(g, in.row, in.column, [&](unsigned i, unsigned j, unsigned oy, unsigned ox) {
        const In* const pixel = dy + element({in.image, 0, oy, ox}, g.filters, g.oh, g.ow);
        for (unsigned o = 0; o < g.filters; ++o) sum.add(pixel[o], weight[weight_at(g, o, i, j, in.channel)]);
    });
    want[at] = sum.value, sizes[at] = sum.size;
}

// A block computes one element of dw; its threads divide the positions among themselves.
extern "C" __global__ void __launch_bounds__(THREADS)
reference_weight_gradient(Conv g, const In* __restrict__ x /* [n][h][w][c] */, const In* __restrict__ dy /* [n][oh][ow][o] */,
                          double* __restrict__ want /* [o][kh][kw][c] */, double* __restrict__ sizes /* as want */, unsigned) {
    // The position of the weight, found by treating its filter as an image of kh x kw.
    const Place of = place(blockIdx.x, g.channels, g.kh, g.kw);
    Sum sum;
    for (unsigned k = threadIdx.x; k < g.positions; k += THREADS) {
        const unsigned ox = k % g.ow, oy = k / g.ow % g.oh, image = k / g.ow / g.oh;
        const unsigned row = oy * g.sh + of.row - g.ph, column = ox * g.sw + of.column - g.pw;
        if (row < g.h && column < g.w) {
            sum.add(x[element({image, of.channel, row, column}, g.channels, g.h, g.w)], dy[element({image, of.image, oy, ox}, g.filters, g.oh, g.ow)]);
        }
    }
    const double value = block_sum<THREADS>(sum.value), size = block_sum<THREADS>(sum.size);
    if (threadIdx.x == 0) want[blockIdx.x] = value, sizes[blockIdx.x] = size;
}
