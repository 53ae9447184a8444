// Idea: L2 may serve blocks together if they ask for the same lines at nearly the same time; the rate of requests shows whether it does.
// Formula: out[block] = sum of the parts of data, f32[n], that the block read in `rounds` rounds; `group` blocks in a row read the same.
// Since the last rung: not a rung; with a group of 1 it is peaks/read.cu.
// Needs: data 16-byte aligned, n a multiple of 4 below 2^33; the grid a multiple of `group`; L1 is bypassed.
// Expect: the rate of L2's ceiling with a group of 1; above it, if requests for the same line are merged on their way.
#include "peaks/read.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
read_together(const float* __restrict__ data /* [n] */, float* __restrict__ out /* [blocks] */, unsigned long long n, unsigned rounds,
              unsigned group) {
    sum_of_reads(data, n, rounds, blockIdx.x / group, gridDim.x / group, out + blockIdx.x);
}
