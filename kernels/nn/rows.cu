// Idea: one block per row of the batch; its threads copy the row and round it.
// Formula: out[b][j] = rows[indices[b]][j]; rows f32 [count][width], out [gridDim.x][width] of type IN.
// Since the last rung: not a rung; it gathers batches of samples that are vectors of numbers.
// Needs: any width; an index without a row gives NaN.
// Expect: DRAM bandwidth for rows of a few KiB or more.
#include "launch.cuh"
#include "nn/elements.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
gather_rows(const float* __restrict__ rows /* [count][width] */, unsigned count, unsigned width,
            const unsigned* __restrict__ indices /* [gridDim.x] */, In* __restrict__ out /* [gridDim.x][width] */) {
    wait_for_predecessor();
    let_successor_start();
    const unsigned index = indices[blockIdx.x];
    const float* from = rows + (size_t)index * width;
    In* to = out + (size_t)blockIdx.x * width;
    const bool exists = index < count;
    if (exists && width % 4 == 0 && (size_t)rows % 16 == 0 && (size_t)out % 16 == 0) {
#pragma unroll 4
        for (unsigned j = 4 * threadIdx.x; j < width; j += 4 * THREADS) {
            const float4 v = *reinterpret_cast<const float4*>(from + j);
            store_word(to + j, v.x, v.y);
            store_word(to + j + 2, v.z, v.w);
        }
        return;
    }
    for (unsigned j = threadIdx.x; j < width; j += THREADS) {
        to[j] = from_float<In>(exists ? from[j] : __int_as_float(0x7fffffff));
    }
}
