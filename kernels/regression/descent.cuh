// Code that all regression kernels share: how points are read, and how an epoch ends.
//
// Sums are kept as partial[3][blocks], one column per block: row LOSS is the sum of err^2, row GRAD_W the sum of err x, row GRAD_B the sum of err.
#pragma once
#include "launch.cuh"
#include "reduce.cuh"
#include "xray.cuh"

constexpr int SUMS = 3, LOSS = 0, GRAD_W = 1, GRAD_B = 2;

// Decides in which epochs the loss is logged. It counts down: a remainder by a number known only at run time would take a tenth
// of a microsecond, which is a tenth of an epoch when the points stay on the chip.
struct LossLog {
    unsigned every, left, entries = 0;

    __device__ __forceinline__ explicit LossLog(unsigned every) : every(every), left(every) {}

    // Returns true if this epoch is logged. Call this once per epoch.
    __device__ __forceinline__ bool next() {
        if (--left != 0) return false;
        left = every, ++entries;
        return true;
    }
};

// Adds up the four lanes of each of a thread's sums.
__device__ __forceinline__ void add_lanes(const float (&lanes)[SUMS][4], float (&sums)[SUMS]) {
#pragma unroll
    for (int k = 0; k < SUMS; ++k) sums[k] = (lanes[k][0] + lanes[k][1]) + (lanes[k][2] + lanes[k][3]);
}

// A thread's sums over its points, for one pair of weights. Each sum has four lanes, so that four chains of additions run at once.
template <bool WITH_LOSS = true>
struct PointSums {
    float w, b;
    float lanes[SUMS][4] = {};

    __device__ __forceinline__ PointSums(float w, float b) : w(w), b(b) {}

    __device__ __forceinline__ void add(int lane, float x, float y) {
        const float err = fmaf(w, x, b) - y;
        if (WITH_LOSS) lanes[LOSS][lane] = fmaf(err, err, lanes[LOSS][lane]);
        lanes[GRAD_W][lane] = fmaf(err, x, lanes[GRAD_W][lane]);
        lanes[GRAD_B][lane] += err;
    }
    __device__ __forceinline__ void add(float4 x, float4 y) {
        add(0, x.x, y.x), add(1, x.y, y.y), add(2, x.z, y.z), add(3, x.w, y.w);
    }
    __device__ __forceinline__ void total(float (&sums)[SUMS]) const { add_lanes(lanes, sums); }
};

// Adds up a block's sums and writes them to its column, partial[k][first_block + block].
template <int BLOCK>
__device__ __forceinline__ void write_block_sums(float (&sums)[SUMS], float* __restrict__ partial /* [3][columns] */,
                                                 unsigned columns, unsigned first_block) {
    MARK(reduce);
    block_sum<BLOCK>(sums);
    MARK(store);
    if (threadIdx.x == 0) {
#pragma unroll
        for (int k = 0; k < SUMS; ++k) partial[k * (size_t)columns + first_block + blockIdx.x] = sums[k];
    }
}

// Ends an epoch in one block: adds the blocks' sums, logs the mean squared error if `loss` is not null, and updates the weights.
//   w -= lr * 2/n * sum(err x), b -= lr * 2/n * sum(err)
template <int BLOCK>
__device__ __forceinline__ void end_epoch(const float* __restrict__ partial /* [3][blocks] */, unsigned blocks,
                                          float inverse_n, float learning_rate, float* weights /* [2]: w, b */,
                                          float* loss /* [1], or null */) {
    float sums[SUMS] = {};
    MARK(wait);
    wait_for_predecessor();
    MARK(load);
    for (unsigned block = threadIdx.x; block < blocks; block += BLOCK) {
#pragma unroll
        for (int k = 0; k < SUMS; ++k) sums[k] += partial[k * (size_t)blocks + block];
    }
    MARK(reduce);
    block_sum<BLOCK>(sums);
    MARK(store);
    if (threadIdx.x == 0) {
        const float rate = learning_rate * 2.0f * inverse_n;
        weights[0] -= rate * sums[GRAD_W];
        weights[1] -= rate * sums[GRAD_B];
        if (loss != nullptr) *loss = sums[LOSS] * inverse_n;
    }
}
