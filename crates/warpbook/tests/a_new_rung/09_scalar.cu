// Idea: the fused pass with loads of 4 bytes instead of 16.
// Formula: err = w x + b - y; partial[:, block] = sums of (err^2, x err, err); then (w, b) -= lr 2/n (sum err x, sum err); f32[n].
// Since the last rung: a thread reads one point at a time.
// Needs: nothing; any n and alignment.
// Expect: four times as many load instructions; the same bytes.
#include "regression/descent.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
pass(const float* __restrict__ x /* [n] */, const float* __restrict__ y /* [n] */, const float* weights /* [2] */,
     float* __restrict__ partial /* [3][columns] */, unsigned long long n, unsigned columns, unsigned first_block) {
    const unsigned long long stride = gridDim.x * (unsigned long long)THREADS;
    PointSums<> points(weights[0], weights[1]);
    for (unsigned long long i = blockIdx.x * (unsigned long long)THREADS + threadIdx.x; i < n; i += stride) points.add(0, x[i], y[i]);
    float sums[SUMS];
    points.total(sums);
    write_block_sums<THREADS>(sums, partial, columns, first_block);
}

extern "C" __global__ void __launch_bounds__(THREADS)
update(const float* __restrict__ partial /* [3][blocks] */, unsigned blocks, float inverse_n, float learning_rate,
       float* weights /* [2] */, float* loss /* [1], or null */) {
    end_epoch<THREADS>(partial, blocks, inverse_n, learning_rate, weights, loss);
}
