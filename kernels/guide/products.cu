// Idea: the sum of the products of two arrays, on the device.
// Formula: y[slot] += x[0] x[n] + .. + x[n - 1] x[2 n - 1]; f32, exact if the products are small integers.
// Since the last rung: nothing; both halves of the pair run this kernel and differ in when the sum is copied back.
// Needs: y[slot] = 0 at launch; 16-byte aligned x, n a multiple of 4.
// Expect: the time it takes to read both arrays, from L2 if they fit.
#include "reduce.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
products(const float4* __restrict__ x /* [2][n / 4] */, float* __restrict__ y /* [slots] */, unsigned n, unsigned slot) {
    float v[1] = {0};
#pragma unroll 4
    for (unsigned i = blockIdx.x * THREADS + threadIdx.x; i < n / 4; i += gridDim.x * THREADS) {
        const float4 a = x[i], b = x[n / 4 + i];
        v[0] += (a.x * b.x + a.y * b.y) + (a.z * b.z + a.w * b.w);
    }
    block_sum<THREADS>(v);
    if (threadIdx.x == 0) atomicAdd(y + slot, v[0]);
}
