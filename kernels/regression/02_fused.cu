// Idea: a point's prediction, error, loss and gradients never leave its thread's registers; only three sums per block are written.
// Formula: err = w x + b - y; partial[:, block] = sums of (err^2, err x, err); then (w, b) -= lr 2/n (sum err x, sum err); f32[n].
// Since the last rung: four kernels over the points became one pass, and the intermediates pred and err are gone.
// Needs: x and y 16-byte aligned (a slice starts at a multiple of four points); any n.
// Expect: x and y are read from memory once per epoch; the pass runs at the speed of simply reading both.
#include "regression/descent.cuh"

// For the ablation: each define leaves out one part of the work, so that the difference in time shows the cost of that part.
#ifndef WITHOUT_LOSS
#define WITHOUT_LOSS 0
#endif
#ifndef WITHOUT_GRADIENTS
#define WITHOUT_GRADIENTS 0
#endif
#ifndef WITHOUT_REDUCTION
#define WITHOUT_REDUCTION 0
#endif
#ifndef WITHOUT_Y
#define WITHOUT_Y 0
#endif

static_assert(ITEMS % 4 == 0, "points are read four at a time");
constexpr int GROUPS = ITEMS / 4;

struct Accumulator {
    // Each sum has four lanes, since the additions of one lane need not wait for another lane's.
    float lanes[SUMS][4] = {};

    __device__ __forceinline__ void add(int lane, float w, float b, float x, float y) {
        const float err = fmaf(w, x, b) - y;
        if (!WITHOUT_LOSS) lanes[LOSS][lane] = fmaf(err, err, lanes[LOSS][lane]);
        if (!WITHOUT_GRADIENTS) {
            lanes[GRAD_W][lane] = fmaf(err, x, lanes[GRAD_W][lane]);
            lanes[GRAD_B][lane] += err;
        }
        // With nothing left to compute, a plain sum keeps the reads from being optimised away.
        if (WITHOUT_LOSS && WITHOUT_GRADIENTS) lanes[LOSS][lane] += x + y;
    }

    __device__ __forceinline__ void add(float w, float b, float4 x, float4 y) {
        add(0, w, b, x.x, y.x), add(1, w, b, x.y, y.y), add(2, w, b, x.z, y.z), add(3, w, b, x.w, y.w);
    }
};

// Makes one pass over n points and writes each block's sums to partial[k][first_block + block], in rows of `columns`.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
pass(const float* __restrict__ x /* [n] */, const float* __restrict__ y /* [n] */, const float* weights /* [2] */,
     float* __restrict__ partial /* [3][columns] */, unsigned long long n, unsigned columns, unsigned first_block) {
    MARK_BEGIN(pass);
    const unsigned long long first = blockIdx.x * (unsigned long long)THREADS + threadIdx.x;
    const unsigned long long stride = gridDim.x * (unsigned long long)THREADS, groups = n / 4;
    const float4* x4 = reinterpret_cast<const float4*>(x);
    const float4* y4 = reinterpret_cast<const float4*>(y);
    let_successor_start();

    float4 xs[GROUPS], ys[GROUPS];
    const auto load = [&](unsigned long long from) {
#pragma unroll
        for (int g = 0; g < GROUPS; ++g) {
            const unsigned long long i = from + g * stride;
            if (i < groups) {
                xs[g] = x4[i];
                if (!WITHOUT_Y) ys[g] = y4[i];
            }
        }
    };
    // Loads the first points before waiting for the weights.
    MARK(load);
    load(first);
    MARK(wait);
    wait_for_predecessor();
    const float w = weights[0], b = weights[1];

    Accumulator sum;
    for (unsigned long long from = first; from < groups; from += GROUPS * stride) {
        MARK(load);
        if (from != first) load(from);
        MARK(compute);
#pragma unroll
        for (int g = 0; g < GROUPS; ++g) {
            if (from + g * stride < groups) sum.add(w, b, xs[g], WITHOUT_Y ? xs[g] : ys[g]);
        }
    }
    if (first < n % 4) sum.add(0, w, b, x[groups * 4 + first], WITHOUT_Y ? 0.0f : y[groups * 4 + first]);

    float sums[SUMS];
    add_lanes(sum.lanes, sums);
    if (WITHOUT_REDUCTION) {
        // The condition is never true, since sums of squares are not negative. The compiler does not know that, so it keeps the sums.
        if (sums[LOSS] + sums[GRAD_W] + sums[GRAD_B] == -1.2345678e30f) partial[first] = sums[LOSS];
        return;
    }
    write_block_sums<THREADS>(sums, partial, columns, first_block);
    MARK(end);
}

// Adds up the blocks' sums and updates the weights.
extern "C" __global__ void __launch_bounds__(THREADS)
update(const float* __restrict__ partial /* [3][blocks] */, unsigned blocks, float inverse_n, float learning_rate,
       float* weights /* [2] */, float* loss /* [1], or null */) {
    MARK_BEGIN(update);
    let_successor_start();
    end_epoch<THREADS>(partial, blocks, inverse_n, learning_rate, weights, loss);
    MARK(end);
}
