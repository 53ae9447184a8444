// Idea: the squared error of a line is a polynomial in w and b, so six numbers about the points are all that the descent needs.
// Formula: n, Sx, Sy, Sxx, Sxy, Syy in one pass; then sum err x = w Sxx + b Sx - Sxy, sum err = w Sx + b n - Sy in f64; f32[n].
// Since the last rung: the same descent with less work: epochs no longer read the points, so it is compared separately.
// Needs: x and y 16-byte aligned; any n. Other loss functions have no such numbers.
// Expect: one read of the points, bound by memory, and about ten microseconds for 200 epochs in one thread.
#include "reduce.cuh"

static_assert(ITEMS % 4 == 0, "points are read four at a time");
constexpr int GROUPS = ITEMS / 4;
constexpr int MOMENTS = 5, SX = 0, SY = 1, SXX = 2, SXY = 3, SYY = 4;

// A sum and the rounding errors it lost: in f32 alone, a sum of 10^8 terms would keep four digits, and the gradient is a difference of such sums.
// Ogita, Rump and Oishi, "Accurate sum and dot product", SIAM J. Sci. Comput. 26 (2005), algorithms 4.4 and 5.3.
struct Compensated {
    float sum = 0.0f, lost = 0.0f;

    // Knuth's TwoSum: sum + error is the exact total. The intrinsics keep the compiler from contracting the operations.
    __device__ __forceinline__ void add(float v) {
        const float total = __fadd_rn(sum, v), v_part = __fsub_rn(total, sum);
        lost = __fadd_rn(lost, __fadd_rn(__fsub_rn(sum, __fsub_rn(total, v_part)), __fsub_rn(v, v_part)));
        sum = total;
    }
    // A product is rounded as well; one fused multiply-add gives its error.
    __device__ __forceinline__ void add_product(float a, float c) {
        const float product = __fmul_rn(a, c);
        lost = __fadd_rn(lost, __fmaf_rn(a, c, -product));
        add(product);
    }
    __device__ __forceinline__ double value() const { return (double)sum + (double)lost; }
};

__device__ __forceinline__ double warp_sum(double v) {
#pragma unroll
    for (int offset = WARP / 2; offset > 0; offset /= 2) v += __shfl_xor_sync(ALL_LANES, v, offset);
    return v;
}

// Makes one pass over n points and writes each block's sums to partial[k][block].
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
moments(const float* __restrict__ x /* [n] */, const float* __restrict__ y /* [n] */, unsigned long long n,
        double* __restrict__ partial /* [5][blocks] */) {
    constexpr int WARPS = THREADS / WARP;
    __shared__ double of_warps[MOMENTS][WARPS];
    const unsigned long long first = blockIdx.x * (unsigned long long)THREADS + threadIdx.x;
    const unsigned long long stride = gridDim.x * (unsigned long long)THREADS, groups = n / 4;
    const float4* x4 = reinterpret_cast<const float4*>(x);
    const float4* y4 = reinterpret_cast<const float4*>(y);

    Compensated sums[MOMENTS];
    const auto add = [&](float xi, float yi) {
        sums[SX].add(xi), sums[SY].add(yi);
        sums[SXX].add_product(xi, xi), sums[SXY].add_product(xi, yi), sums[SYY].add_product(yi, yi);
    };
    for (unsigned long long from = first; from < groups; from += GROUPS * stride) {
        float4 xs[GROUPS], ys[GROUPS];
#pragma unroll
        for (int g = 0; g < GROUPS; ++g) {
            if (from + g * stride < groups) xs[g] = x4[from + g * stride], ys[g] = y4[from + g * stride];
        }
#pragma unroll
        for (int g = 0; g < GROUPS; ++g) {
            if (from + g * stride < groups) {
                add(xs[g].x, ys[g].x), add(xs[g].y, ys[g].y), add(xs[g].z, ys[g].z), add(xs[g].w, ys[g].w);
            }
        }
    }
    if (first < n % 4) add(x[groups * 4 + first], y[groups * 4 + first]);

    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
#pragma unroll
    for (int k = 0; k < MOMENTS; ++k) {
        const double of_warp = warp_sum(sums[k].value());
        if (lane == 0) of_warps[k][warp] = of_warp;
    }
    __syncthreads();
    if (warp < MOMENTS) {
        const double of_block = warp_sum(lane < WARPS ? of_warps[warp][lane] : 0.0);
        if (lane == 0) partial[warp * (size_t)gridDim.x + blockIdx.x] = of_block;
    }
}

// Adds up the blocks' moments and runs all epochs, in one block.
extern "C" __global__ void __launch_bounds__(THREADS)
descend(const double* __restrict__ partial /* [5][blocks] */, unsigned blocks, unsigned long long n, unsigned epochs,
        unsigned log_every, float learning_rate, float* weights /* [2]: w, b */, float* losses /* [epochs / log_every] */) {
    static_assert(THREADS / WARP >= MOMENTS, "a warp for each moment");
    __shared__ double moments[MOMENTS];
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    if (warp < MOMENTS) {
        double sum = 0.0;
        for (unsigned block = lane; block < blocks; block += WARP) sum += partial[warp * (size_t)blocks + block];
        sum = warp_sum(sum);
        if (lane == 0) moments[warp] = sum;
    }
    __syncthreads();
    if (threadIdx.x != 0) return;

    // Divides the sums by n, so that the numbers stay small: the gradients are then 2 (w mxx + b mx - mxy) and 2 (w mx + b - my).
    const double inverse_n = 1.0 / (double)n, mx = moments[SX] * inverse_n, my = moments[SY] * inverse_n;
    const double mxx = moments[SXX] * inverse_n, mxy = moments[SXY] * inverse_n, myy = moments[SYY] * inverse_n;
    const double rate = 2.0 * (double)learning_rate;
    double w = weights[0], b = weights[1];
    for (unsigned epoch = 1; epoch <= epochs; ++epoch) {
        const double grad_w = w * mxx + (b * mx - mxy), grad_b = w * mx + (b - my);
        if (epoch % log_every == 0) {
            losses[epoch / log_every - 1] = (float)(w * (grad_w - mxy) + b * (grad_b - my) + myy);
        }
        w -= rate * grad_w, b -= rate * grad_b;
    }
    weights[0] = (float)w, weights[1] = (float)b;
}
