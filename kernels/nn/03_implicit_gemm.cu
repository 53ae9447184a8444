// Idea: a convolution is a product with a matrix of patches that is never stored: tiles of it are gathered into shared memory.
// Formula: y = f(x * w + b), dx, dw as defined in kernels/nn/patches.cuh; f32, sums in f32; PASS selects one of them.
// Since the last rung: no columns in memory; the addresses of a tile's elements are computed from pixel and tap while the tile is loaded.
// Needs: fewer than 2^31 elements; images NHWC, or NCHW with CHANNELS_FIRST.
// Expect: the rate of a matrix product with register tiles, less the time to compute the addresses of the elements.
#include "launch.cuh"
#include "matmul/cuda_cores.cuh"
#include "nn/patches.cuh"

// The possible values of PASS.
#define FORWARD 0
#define INPUT_GRADIENT 1
#define WEIGHT_GRADIENT 2

static_assert(THREADS == BM / TM * (BN / TN), "a thread computes TM x TN sums");
static_assert(TM % 4 == 0 && TN % 4 == 0 && TM <= 8 && TN <= 8, "fragments are one or two vectors of four");

// Loads a thread's elements of the tiles of one operand, tile by tile along k.
template <int OUTER, bool ALONG_K, class Map>
struct Loads {
    static constexpr int PITCH = OUTER + 4;  // the padding puts elements with equal outer index and different k in different banks
    static constexpr int COUNT = OUTER * BK / THREADS, OUTERS = ALONG_K ? COUNT : 1;
    static constexpr int APART = ALONG_K ? THREADS / BK : THREADS / OUTER;  // distance between a thread's elements in the tile
    static_assert(OUTER * BK % THREADS == 0, "every thread loads the same number of elements");
    static_assert(ALONG_K ? THREADS % BK == 0 : THREADS % OUTER == 0, "a thread's elements have one k, or one outer index");

    Map map;
    typename Map::Outer outers[OUTERS];
    unsigned k;
    float values[COUNT];

    __device__ __forceinline__ Loads(const Map& map, unsigned outer, unsigned first_k) : map(map) {
        k = first_k + (ALONG_K ? threadIdx.x % BK : threadIdx.x / OUTER);
#pragma unroll
        for (int i = 0; i < OUTERS; ++i) {
            outers[i] = map.outer(outer + (ALONG_K ? threadIdx.x / BK + i * APART : threadIdx.x % OUTER));
        }
    }

    __device__ __forceinline__ void load() {
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            unsigned from;
            const bool inside = map.find(outers[ALONG_K ? i : 0], map.inner(ALONG_K ? k : k + i * APART), from);
            values[i] = inside ? map.array[from] : 0.0f;
        }
        k += BK;
    }

    __device__ __forceinline__ void store(float (&tile)[BK][PITCH]) const {
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            if (ALONG_K) tile[threadIdx.x % BK][threadIdx.x / BK + i * APART] = values[i];
            else tile[threadIdx.x / OUTER + i * APART][threadIdx.x % OUTER] = values[i];
        }
    }
};

template <class A, class B>
struct Product {
    float sums[TM][TN] = {};
    unsigned row = threadIdx.x / (BN / TN) * 4, column = threadIdx.x % (BN / TN) * 4;  // position in the tile of the thread's first sum

    // While one stage is multiplied, the next is loaded into registers.
    __device__ __forceinline__ void multiply(A a, B b, unsigned stages) {
        __shared__ __align__(16) float tile_a[2][BK][A::PITCH], tile_b[2][BK][B::PITCH];
        a.load(), b.load();
        a.store(tile_a[0]), b.store(tile_b[0]);
        __syncthreads();
#pragma unroll 1
        for (unsigned stage = 0; stage < stages; ++stage) {
            // Past the end of k, these loads return zeros, which are never used.
            a.load(), b.load();
            const unsigned now = stage % 2;
#pragma unroll
            for (int k = 0; k < BK; ++k) {
                float of_a[TM], of_b[TN];
                read_fragment<BM / 2>(of_a, &tile_a[now][k][row]);
                read_fragment<BN / 2>(of_b, &tile_b[now][k][column]);
                ::multiply(sums, of_a, of_b);
            }
            // All threads finished reading the other buffer before the previous stage's barrier.
            a.store(tile_a[1 - now]), b.store(tile_b[1 - now]);
            __syncthreads();
        }
    }

    // Stores the thread's sums; the block's tile starts at (row0, column0) of the result.
    template <bool IMAGES>
    __device__ __forceinline__ void store(const Result<float, IMAGES>& to, unsigned row0, unsigned column0) const {
        const size_t base = (size_t)to.array | (size_t)to.mask;
        const bool vectors = !Result<float, IMAGES>::BY_CHANNEL && to.n % 4 == 0 && base % 16 == 0;
#pragma unroll
        for (int j = 0; j < TN; j += 4) {
            const unsigned c = column0 + column + place<BN / 2>(j);
            float add[4];
#pragma unroll
            for (int e = 0; e < 4; ++e) add[e] = to.bias_of(c + e);
#pragma unroll
            for (int i = 0; i < TM; ++i) {
                const unsigned r = row0 + row + place<BM / 2>(i), at = to.row(r);
                if (r >= to.m || c >= to.n) continue;
                if (vectors) {
                    float v[4];
#pragma unroll
                    for (int e = 0; e < 4; ++e) v[e] = to.masked(to.activated(sums[i][j + e], add[e]), at + c + e);
                    *reinterpret_cast<float4*>(to.array + at + c) = make_float4(v[0], v[1], v[2], v[3]);
                } else {
#pragma unroll
                    for (int e = 0; e < 4; ++e) {
                        if (c + e < to.n) to.store(at, c + e, sums[i][j + e], add[e]);
                    }
                }
            }
        }
    }
};

#if PASS == FORWARD

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
forward(Patches g /* of x */, const In* __restrict__ x /* images */, const In* __restrict__ weight /* [filters][taps] */,
        const float* __restrict__ bias /* [filters], or null */, unsigned relu, In* __restrict__ y /* images */, unsigned filters) {
    wait_for_predecessor();
    let_successor_start();
    using A = Loads<BM, !CHANNELS_FIRST, PixelsByTaps>;
    using B = Loads<BN, true, Weights>;
    const unsigned tiles_n = (filters + BN - 1) / BN, row = blockIdx.x / tiles_n * BM, column = blockIdx.x % tiles_n * BN;
    Product<A, B> product;
    product.multiply(A({x, g}, row, 0), B({weight, filters, g.taps}, column, 0), (g.taps + BK - 1) / BK);
    product.store(Result<In, true>{y, g.pixels, filters, g.grid, bias, relu, nullptr}, row, column);
}

#elif PASS == INPUT_GRADIENT

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
input_gradient(Patches g /* of dy */, const In* __restrict__ dy /* images */, const In* __restrict__ weight /* [filters][taps of x] */,
               const In* __restrict__ mask /* as dx, or null */, In* __restrict__ dx /* images */, unsigned channels, unsigned filters,
               unsigned window /* kh kw */) {
    wait_for_predecessor();
    let_successor_start();
    using A = Loads<BM, !CHANNELS_FIRST, PixelsByTaps>;
    using B = Loads<BN, false, MirroredWeights>;
    const unsigned tiles_n = (channels + BN - 1) / BN, row = blockIdx.x / tiles_n * BM, column = blockIdx.x % tiles_n * BN;
    Product<A, B> product;
    product.multiply(A({dy, g}, row, 0), B({weight, g, channels, filters, window}, column, 0), (g.taps + BK - 1) / BK);
    product.store(Result<In, true>{dx, g.pixels, channels, g.grid, nullptr, 0, mask}, row, column);
}

#else

// Each block sums over `share` pixels, which is a multiple of BK. Every block has at least one pixel.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
weight_gradient(Patches g /* of x */, const In* __restrict__ x /* images */, const In* __restrict__ dy /* images */,
                float* __restrict__ out /* [ceil(pixels / share)][filters][taps] */, unsigned filters, unsigned share) {
    wait_for_predecessor();
    let_successor_start();
    using A = Loads<BM, CHANNELS_FIRST, FiltersByPixels>;
    using B = Loads<BN, CHANNELS_FIRST, TapsByPixels>;
    const unsigned tiles_n = (g.taps + BN - 1) / BN, tiles = (filters + BM - 1) / BM * tiles_n, part = blockIdx.x / tiles;
    const unsigned row = blockIdx.x % tiles / tiles_n * BM, column = blockIdx.x % tiles_n * BN;
    const unsigned first = part * share, end = min(first + share, g.pixels);
    Product<A, B> product;
    product.multiply(A({dy, g, filters, end}, row, first), B({x, g, end}, column, first), (end - first + BK - 1) / BK);
    float* const to = out + (size_t)part * filters * g.taps;
    product.store(Result<float, false>{to, filters, g.taps, g.grid, nullptr, 0, nullptr}, row, column);
}

#endif
