// Idea: each step of the Newton-Schulz iteration is three small products; one launch computes a product for all filters, one block per tile of 64 x 64.
// Formula: A = X X^T, B = b A + c A A, X = a X + B X, of X = D / |D|, D the direction of Nesterov's momentum; X, A, B in bf16, sums in f32.
// Since the last rung: not a rung; the optimiser Muon (Jordan et al., 2024) for filters [out][columns].
// Needs: filters padded with zeros to multiples of 64 in the workspace; tensor cores from sm_80 on, CUDA cores below.
// Expect: latency, not throughput: a filter of 256 x 2304 has 16 tiles with 72 slices of k.
#include "launch.cuh"
#include "nn/elements.cuh"
#include "nn/step.cuh"

constexpr int TILE = 64;   // number of rows, and of columns, of a block's tile
constexpr int DEEP = 32;   // elements along k per stage
constexpr int STAGES = 4;
constexpr int PITCH = 40;  // elements from one row to the next in shared memory: no two rows of a fragment share a bank
static_assert(THREADS == 256, "eight warps: two halves of k, four quadrants of the tile");

// One filter and its arrays, with offsets in elements. The layout must match FILTER_WORDS in crates/warpbook-nn/src/ops/muon/cuda.rs.
struct Filter {
    unsigned weights;                // the filter's offset in the weights, the gradients and the momentum
    unsigned direction;              // offset of the direction in the f32 workspace
    unsigned out, columns;           // sizes of the filter
    unsigned rows, across;           // sizes of X: the smaller and the larger of `out` and `columns`, padded
    unsigned transposed;             // 1 if X is the transposed filter, else 0
    unsigned even, even_transposed;  // offsets in the bf16 workspace of X and its transpose, for even iterations
    unsigned odd, odd_transposed;    // offsets in the workspace of X and its transpose, for odd iterations
    unsigned a, b;                   // offsets in the bf16 workspace of A and B, [rows][rows] each
    unsigned group;                  // index of the filter's group in the array of Numbers
    unsigned first_chunk, chunks;    // range of the filter's blocks in element-wise launches
};
static_assert(sizeof(Filter) == 64, "16 words");

__device__ __forceinline__ unsigned x_of(const Filter& f, unsigned iteration) { return iteration & 1 ? f.odd : f.even; }
__device__ __forceinline__ unsigned transposed_of(const Filter& f, unsigned iteration) { return iteration & 1 ? f.odd_transposed : f.even_transposed; }

// The constant settings of a group of parameters. The layout must match GROUP_NUMBERS in crates/warpbook-nn/src/ops/optimizer/groups.rs.
struct Numbers {
    float momentum, decay, nesterov, unused;
};

__device__ __forceinline__ float wide(unsigned short bits) { return __uint_as_float((unsigned)bits << 16); }
__device__ __forceinline__ unsigned short narrow(float v) {
    // Rounds to nearest, ties to even; a NaN stays NaN.
    const unsigned bits = __float_as_uint(v);
    if (v != v) return 0x7fff;
    return (unsigned short)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// Returns the filter of a block, and the block's number among the filter's blocks; count(f) is the number of blocks of filter f.
template <class Count> __device__ __forceinline__ const Filter* filter_of(const Filter* filters /* [n] */, unsigned& block, Count count) {
    const Filter* f = filters;
    while (block >= count(*f)) block -= count(*f++);
    return f;
}

__device__ __forceinline__ double block_sum(double v, double* shared /* [THREADS] */) {
    __syncthreads();
    shared[threadIdx.x] = v;
    for (int half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
    }
    __syncthreads();
    return shared[0];
}

// Updates momentum and direction of THREADS * ITEMS elements of a filter per block, and sums the squares of direction and weights.
extern "C" __global__ void __launch_bounds__(THREADS)
muon_direction(const Filter* __restrict__ filters, const Numbers* __restrict__ numbers /* [groups] */, const Step* __restrict__ step /* [1] */,
               const float* __restrict__ weights, const float* __restrict__ gradients, float* __restrict__ momentum,
               float* __restrict__ directions, double* __restrict__ partial /* [gridDim.x][2] */) {
    wait_for_predecessor();
    let_successor_start();
    __shared__ double shared[THREADS];
    if (step->skip) return;
    unsigned block = blockIdx.x;
    const Filter f = *filter_of(filters, block, [](const Filter& f) { return f.chunks; });
    const Numbers by = numbers[f.group];
    const float scale = step->gradient;
    const bool first = step->is_first;
    double squares[2] = {0.0, 0.0};
    for (unsigned i = 0; i < ITEMS; ++i) {
        const unsigned at = (block * ITEMS + i) * THREADS + threadIdx.x;
        if (at >= f.out * f.columns) break;
        const float w = weights[f.weights + at], g = __fmul_rn(gradients[f.weights + at], scale);
        const float m = first ? g : __fadd_rn(__fmul_rn(by.momentum, momentum[f.weights + at]), g);
        const float d = by.nesterov != 0.0f ? __fadd_rn(g, __fmul_rn(by.momentum, m)) : m;
        momentum[f.weights + at] = m;
        directions[f.direction + at] = d;
        squares[0] += (double)d * d;
        squares[1] += (double)w * w;
    }
    for (int which = 0; which < 2; ++which) {
        const double sum = block_sum(squares[which], shared);
        if (threadIdx.x == 0) partial[2 * blockIdx.x + which] = sum;
    }
}

// Writes X and its transpose, one tile per block. A filter's first block also writes the factor by which the update multiplies the weights.
extern "C" __global__ void __launch_bounds__(THREADS)
muon_start(const Filter* __restrict__ filters, const Step* __restrict__ step /* [1] */, const float* __restrict__ directions,
           const double* __restrict__ partial /* [chunks][2] */, float epsilon, unsigned normalises, unsigned short* __restrict__ work,
           float* __restrict__ factors /* [filters] */) {
    wait_for_predecessor();
    let_successor_start();
    __shared__ double shared[THREADS];
    if (step->skip) return;
    unsigned block = blockIdx.x;
    const Filter* of = filter_of(filters, block, [](const Filter& f) { return f.rows / TILE * (f.across / TILE); });
    const Filter f = *of;
    double squares[2] = {0.0, 0.0};
    for (unsigned i = threadIdx.x; i < f.chunks; i += THREADS) {
        squares[0] += partial[2 * (f.first_chunk + i)];
        squares[1] += partial[2 * (f.first_chunk + i) + 1];
    }
    const double norm = sqrt(block_sum(squares[0], shared)), of_weights = sqrt(block_sum(squares[1], shared));
    if (block == 0 && threadIdx.x == 0)
        factors[of - filters] = normalises && of_weights > 0.0 ? (float)(sqrt((double)f.out) / of_weights) : 1.0f;
    const float scale = (float)(1.0 / (norm + epsilon));
    const unsigned tiles = f.across / TILE, row0 = block / tiles * TILE, column0 = block % tiles * TILE;
    for (unsigned e = threadIdx.x; e < TILE * TILE; e += THREADS) {
        const unsigned r = row0 + e / TILE, c = column0 + e % TILE;
        const unsigned o = f.transposed ? c : r, k = f.transposed ? r : c;
        const float v = o < f.out && k < f.columns ? directions[f.direction + o * f.columns + k] * scale : 0.0f;
        work[f.even + r * f.across + c] = narrow(v);
    }
    for (unsigned e = threadIdx.x; e < TILE * TILE; e += THREADS) {
        const unsigned c = column0 + e / TILE, r = row0 + e % TILE;
        const unsigned o = f.transposed ? c : r, k = f.transposed ? r : c;
        const float v = o < f.out && k < f.columns ? directions[f.direction + o * f.columns + k] * scale : 0.0f;
        work[f.even_transposed + c * f.rows + r] = narrow(v);
    }
}

__device__ __forceinline__ void copy_16_bytes(unsigned short* to, const unsigned short* from) {
#if __CUDA_ARCH__ >= 800
    const unsigned at = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from) : "memory");
#else
    *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(from);
#endif
}
__device__ __forceinline__ void end_of_stage() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
template <int PENDING> __device__ __forceinline__ void wait_for_stage() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
#endif
}

__device__ __forceinline__ unsigned two(const unsigned short* from) { return *reinterpret_cast<const unsigned*>(from); }

// Computes sums += P Q^T over 16 elements along k. P and Q are the rows of both factors for this warp's quadrant, [32][PITCH] each.
__device__ __forceinline__ void multiply(const unsigned short* p, const unsigned short* q, float (&sums)[2][4][4]) {
    const unsigned lane = threadIdx.x % 32, row = lane / 4, k = lane % 4 * 2;
#if __CUDA_ARCH__ >= 800
    unsigned a[2][4], b[4][2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const unsigned short* at = p + (16 * i + row) * PITCH + k;
        a[i][0] = two(at), a[i][1] = two(at + 8 * PITCH), a[i][2] = two(at + 8), a[i][3] = two(at + 8 * PITCH + 8);
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        const unsigned short* at = q + (8 * j + row) * PITCH + k;
        b[j][0] = two(at), b[j][1] = two(at + 8);
    }
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j)
            asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                : "+f"(sums[i][j][0]), "+f"(sums[i][j][1]), "+f"(sums[i][j][2]), "+f"(sums[i][j][3])
                : "r"(a[i][0]), "r"(a[i][1]), "r"(a[i][2]), "r"(a[i][3]), "r"(b[j][0]), "r"(b[j][1]));
#else
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j)
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                const unsigned short* left = p + (16 * i + row + e / 2 * 8) * PITCH;
                const unsigned short* right = q + (8 * j + k + e % 2) * PITCH;
                for (int l = 0; l < 16; ++l) sums[i][j][e] += wide(left[l]) * wide(right[l]);
            }
#endif
}

#define GRAM 0        // A = X X^T
#define POLYNOMIAL 1  // B = b A + c A A
#define APPLY 2       // X = a X + B X, written to the arrays of the next iteration

extern "C" __global__ void __launch_bounds__(THREADS)
muon_product(const Filter* __restrict__ filters, const Step* __restrict__ step /* [1] */, unsigned what, unsigned iteration,
             unsigned short* __restrict__ work) {
    wait_for_predecessor();
    let_successor_start();
    __shared__ __align__(16) unsigned short stages[STAGES][2][TILE * PITCH];
    if (step->skip) return;
    unsigned block = blockIdx.x;
    const Filter f = *filter_of(filters, block, [what](const Filter& f) { return f.rows / TILE * ((what == APPLY ? f.across : f.rows) / TILE); });
    const unsigned across = what == APPLY ? f.across : f.rows, depth = what == GRAM ? f.across : f.rows;
    const unsigned tiles = across / TILE, row0 = block / tiles * TILE, column0 = block % tiles * TILE;
    // Rows of both factors are `depth` elements apart. A and B are symmetric, so they need no transpose.
    const unsigned left = what == GRAM ? x_of(f, iteration) : what == POLYNOMIAL ? f.a : f.b;
    const unsigned right = what == GRAM ? x_of(f, iteration) : what == POLYNOMIAL ? f.a : transposed_of(f, iteration);
    const unsigned loads = threadIdx.x / 4, part = threadIdx.x % 4 * 8;
    const unsigned short* from_left = work + left + (size_t)(row0 + loads) * depth + part;
    const unsigned short* from_right = work + right + (size_t)(column0 + loads) * depth + part;
    const unsigned slices = depth / DEEP, to = loads * PITCH + part;
    auto load = [&](unsigned slice) {
        if (slice < slices) {
            copy_16_bytes(&stages[slice % STAGES][0][to], from_left + slice * DEEP);
            copy_16_bytes(&stages[slice % STAGES][1][to], from_right + slice * DEEP);
        }
        end_of_stage();
    };
    for (unsigned slice = 0; slice < STAGES - 1; ++slice) load(slice);
    const unsigned warp = threadIdx.x / 32, half = warp / 4, down = warp % 4 / 2 * 32, over = warp % 2 * 32;
    float sums[2][4][4] = {};
    for (unsigned slice = 0; slice < slices; ++slice) {
        wait_for_stage<STAGES - 2>();
        __syncthreads();
        const unsigned short* p = stages[slice % STAGES][0];
        const unsigned short* q = stages[slice % STAGES][1];
        multiply(p + down * PITCH + 16 * half, q + over * PITCH + 16 * half, sums);
        // Loads into the stage that all warps finished reading before the barrier.
        load(slice + STAGES - 1);
    }
    wait_for_stage<0>();
    __syncthreads();
    // The sums of the two halves of k are added in shared memory.
    constexpr int LINE = TILE + 1;
    float* tile = reinterpret_cast<float*>(stages);
    static_assert(sizeof(stages) >= TILE * LINE * sizeof(float), "the tile takes the place of the stages");
    for (unsigned turn = 0; turn < 2; ++turn) {
        if (half == turn) {
            const unsigned lane = threadIdx.x % 32;
#pragma unroll
            for (int i = 0; i < 2; ++i)
#pragma unroll
                for (int j = 0; j < 4; ++j)
#pragma unroll
                    for (int e = 0; e < 4; ++e) {
                        float* at = tile + (down + 16 * i + lane / 4 + e / 2 * 8) * LINE + over + 8 * j + lane % 4 * 2 + e % 2;
                        *at = turn == 0 ? sums[i][j][e] : *at + sums[i][j][e];
                    }
        }
        __syncthreads();
    }
    for (unsigned e = threadIdx.x; e < TILE * TILE; e += THREADS) {
        const unsigned r = e / TILE, c = e % TILE, at = (row0 + r) * across + column0 + c;
        float* v = tile + r * LINE + c;
        if (what == GRAM) {
            work[f.a + at] = narrow(*v);
        } else if (what == POLYNOMIAL) {
            work[f.b + at] = narrow(-4.7750f * wide(work[f.a + at]) + 2.0315f * *v);
        } else {
            *v = 3.4445f * wide(work[x_of(f, iteration) + at]) + *v;
            work[x_of(f, iteration + 1) + at] = narrow(*v);
        }
    }
    if (what != APPLY) return;
    __syncthreads();
    for (unsigned e = threadIdx.x; e < TILE * TILE; e += THREADS) {
        const unsigned c = e / TILE, r = e % TILE;
        work[transposed_of(f, iteration + 1) + (column0 + c) * f.rows + row0 + r] = narrow(tile[r * LINE + c]);
    }
}

// Updates the weights, w = factor w - rate X, and their rounded copy.
extern "C" __global__ void __launch_bounds__(THREADS)
muon_update(const Filter* __restrict__ filters, const Step* __restrict__ step /* [1] */, const unsigned* __restrict__ counters /* [4] */,
            const float* __restrict__ rates /* [slots][groups] */, unsigned groups, const float* __restrict__ factors /* [filters] */,
            unsigned iterations, const unsigned short* __restrict__ work, float* __restrict__ weights, In* __restrict__ copy /* or null */) {
    wait_for_predecessor();
    let_successor_start();
    if (step->skip) return;
    unsigned block = blockIdx.x;
    const Filter* of = filter_of(filters, block, [](const Filter& f) { return f.chunks; });
    const Filter& f = *of;
    const float rate = rates[counters[SLOT] * groups + f.group], factor = factors[of - filters];
#pragma unroll 1
    for (unsigned i = 0; i < ITEMS; ++i) {
        const unsigned at = (block * ITEMS + i) * THREADS + threadIdx.x;
        if (at >= f.out * f.columns) break;
        const unsigned o = at / f.columns, k = at % f.columns, r = f.transposed ? k : o, c = f.transposed ? o : k;
        const float x = wide(work[x_of(f, iterations) + r * f.across + c]);
        const float w = __fsub_rn(__fmul_rn(weights[f.weights + at], factor), __fmul_rn(rate, x));
        weights[f.weights + at] = w;
        if (copy) copy[f.weights + at] = from_float<In>(w);
    }
}
