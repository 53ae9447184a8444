// Idea: each thread adds up many elements in a register; the sums of a warp, of a block and of the grid are then each added up once.
// Formula: y[0] += x[0] + .. + x[n - 1]; f32, exact if the numbers are small integers.
// Since the last rung: one atomic addition per block, with a grid that fits the GPU, however large n is.
// Needs: y[0] = 0 at launch; 16-byte aligned x.
// Expect: the time it takes to read x.
#include "reduce.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
sum(const float* __restrict__ x /* [n] */, float* __restrict__ y /* [1] */, unsigned n, unsigned) {
    const unsigned first = blockIdx.x * THREADS + threadIdx.x, threads = gridDim.x * THREADS;
    float v[1] = {0};
#pragma unroll 4
    for (unsigned i = first; i < n / 4; i += threads) {
        const float4 four = reinterpret_cast<const float4*>(x)[i];
        v[0] += (four.x + four.y) + (four.z + four.w);
    }
    if (first < n % 4) v[0] += x[n / 4 * 4 + first];
    block_sum<THREADS>(v);
    if (threadIdx.x == 0) atomicAdd(y, v[0]);
}
