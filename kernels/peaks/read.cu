// Idea: the fastest read of an array is the ceiling for every kernel that has to read one.
// Formula: out[block] = sum of what the block read of data, f32[n], over `rounds` rounds of the whole array.
// Since the last rung: not a rung; this kernel measures a ceiling.
// Needs: data 16-byte aligned, n a multiple of 4 below 2^33; L1 is bypassed, so a small array measures L2.
// Expect: 90 % or more of the datasheet's bandwidth from an array several times L2.
#include "peaks/read.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
read_sum(const float* __restrict__ data /* [n] */, float* __restrict__ out /* [blocks] */, unsigned long long n,
         unsigned rounds) {
    sum_of_reads(data, n, rounds, blockIdx.x, gridDim.x, out + blockIdx.x);
}
