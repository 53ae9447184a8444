// Idea: column sums in words of 16 bytes: each thread sums a group of columns over every n-th row of its block's chunk.
// Formula: partial_sums: out[c][j] = sum of from[r][j] over the rows r of chunk c; total_sums, wide_total_sums: out[j], or rest[j - first], = sum of from[r][j] over all r.
// Since the last rung: not a rung; matmul/column_sums.cu for long rows: for bias gradients and for sums split over blocks.
// Needs: partial_sums: n a multiple of 16 bytes of IN, `from` at a multiple of them; total_sums: f32, any n; wide_total_sums: a multiple of 4, `from` at one of 16 bytes. Sums in f32.
// Expect: one read at DRAM bandwidth; every sum is added in the same order on every run and every device.
#include "launch.cuh"
#include "nn/elements.cuh"
#include "nn/sums.cuh"

// The maximum number of column groups per block.
constexpr unsigned GROUPS = 8;

extern "C" __global__ void __launch_bounds__(THREADS)
partial_sums(const In* __restrict__ from /* [rows][n] */, unsigned rows, unsigned n, unsigned chunk /* rows of a block */,
             unsigned across /* groups of a block: 1, 2, 4 or 8 */, float* __restrict__ out /* [ceil(rows / chunk)][n] */) {
    wait_for_predecessor();
    let_successor_start();
    __shared__ float sums[THREADS][GROUP + 1];
    const unsigned tiles = (n / GROUP + across - 1) / across, part = blockIdx.x / tiles;
    const unsigned group = threadIdx.x % across, lane = threadIdx.x / across, lanes = THREADS / across;
    const unsigned column = (blockIdx.x % tiles * across + group) * GROUP;
    const unsigned end = min((part + 1) * chunk, rows);
    float sum[GROUP] = {};
    if (column < n) {
#pragma unroll 4
        for (unsigned r = part * chunk + lane; r < end; r += lanes) {
            float v[GROUP];
            unpack(*reinterpret_cast<const uint4*>(from + (size_t)r * n + column), v, In{});
#pragma unroll
            for (int k = 0; k < GROUP; ++k) sum[k] += v[k];
        }
    }
#pragma unroll
    for (int k = 0; k < GROUP; ++k) sums[threadIdx.x][k] = sum[k];
    __syncthreads();
    // Each thread completes the sum of one column, adding the lanes in order.
    if (threadIdx.x < across * GROUP) {
        const unsigned of = threadIdx.x / GROUP, k = threadIdx.x % GROUP;
        const unsigned to = (blockIdx.x % tiles * across + of) * GROUP + k;
        float total = 0.0f;
#pragma unroll 8
        for (unsigned l = 0; l < lanes; ++l) total += sums[l * across + of][k];
        if (to < n) out[(size_t)part * n + to] = total;
    }
}

// A block sums 32 columns. The sums of columns from `first` on are written to `rest`, unless `rest` is null.
extern "C" __global__ void __launch_bounds__(THREADS)
total_sums(const float* __restrict__ from /* [rows][n] */, unsigned rows, unsigned n, unsigned first, float* __restrict__ out /* [first] */,
           float* __restrict__ rest /* [n - first], or null */) {
    wait_for_predecessor();
    let_successor_start();
    column_total<THREADS>(from, rows, n, [&](unsigned column, float total) {
        if (column < first) out[column] = total;
        else if (rest) rest[column - first] = total;
    });
}

// Computes complete sums, for matrices with enough columns that blocks of 128 columns fill the device. A thread reads 16 bytes at a time.
extern "C" __global__ void __launch_bounds__(THREADS)
wide_total_sums(const float* __restrict__ from /* [rows][n] */, unsigned rows, unsigned n, unsigned first, float* __restrict__ out /* [first] */,
                float* __restrict__ rest /* [n - first], or null */) {
    wait_for_predecessor();
    let_successor_start();
    constexpr unsigned WARPS = THREADS / WARP, COLUMNS = WARP * 4;
    __shared__ __align__(16) float of_warps[WARPS][COLUMNS];
    const unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, column = blockIdx.x * COLUMNS + lane * 4;
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (column < n) {
#pragma unroll 8
        for (unsigned r = warp; r < rows; r += WARPS) {
            const float4 v = *reinterpret_cast<const float4*>(from + (size_t)r * n + column);
            sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
        }
    }
    *reinterpret_cast<float4*>(&of_warps[warp][lane * 4]) = sum;
    __syncthreads();
    const unsigned to = blockIdx.x * COLUMNS + threadIdx.x;
    if (threadIdx.x >= COLUMNS || to >= n) return;
    float total = 0.0f;
#pragma unroll
    for (unsigned w = 0; w < WARPS; ++w) total += of_warps[w][threadIdx.x];
    if (to < first) out[to] = total;
    else if (rest) rest[to - first] = total;
}
