// Idea: the row is read once: it stays in registers while the maximum and the sum are found together.
// Formula: as before; with the running maximum m and the sum s of exp(x - m), a new maximum m' scales the sum by exp(m - m')
//          (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018).
// Since the last rung: 16-byte loads and stores, with a whole row in flight at once; one pass computes both maximum and sum.
// Needs: columns in multiples of 4 for 16-byte loads, otherwise loads have 4 bytes; rows longer than 128 VECTORS are read twice.
// Expect: one DRAM read and one DRAM write for each element, which is the minimum, so the kernel takes as long as a copy.
#define MINUS_INFINITY __int_as_float(0xff800000)

constexpr unsigned HELD = 32 * VECTORS;  // Vectors of a row that a warp holds in registers.

struct Running {
    float largest, sum;

    __device__ __forceinline__ void add(float other_largest, float other_sum) {
        const float top = fmaxf(largest, other_largest);
        // A maximum of minus infinity means that nothing was added yet; without this case, inf - inf would give NaN.
        sum = (largest == top ? sum : sum * __expf(largest - top)) + (other_largest == top ? other_sum : other_sum * __expf(other_largest - top));
        largest = top;
    }
    __device__ __forceinline__ void add(const float4& v) {
        const float top = fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w));
        add(top, top == MINUS_INFINITY ? 0.0f : __expf(v.x - top) + __expf(v.y - top) + __expf(v.z - top) + __expf(v.w - top));
    }
    __device__ __forceinline__ void combine() {
#pragma unroll
        for (int lane = 16; lane > 0; lane /= 2) add(__shfl_xor_sync(~0u, largest, lane), __shfl_xor_sync(~0u, sum, lane));
    }
    __device__ __forceinline__ float4 apply(const float4& v, float inverse) const {
        return make_float4(__expf(v.x - largest) * inverse, __expf(v.y - largest) * inverse, __expf(v.z - largest) * inverse,
                           __expf(v.w - largest) * inverse);
    }
};

extern "C" __global__ void __launch_bounds__(THREADS)
softmax(const float* __restrict__ x /* [rows][columns] */, float* __restrict__ y /* [rows][columns] */, unsigned rows, unsigned columns) {
    const unsigned row = (blockIdx.x * THREADS + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    const float* in = x + (size_t)row * columns;
    float* out = y + (size_t)row * columns;
    Running all{MINUS_INFINITY, 0.0f};
    if (columns % 4 != 0) {
        for (unsigned c = lane; c < columns; c += 32) all.add(in[c], 1.0f);
        all.combine();
        const float inverse = 1.0f / all.sum;
        for (unsigned c = lane; c < columns; c += 32) out[c] = __expf(in[c] - all.largest) * inverse;
        return;
    }
    const float4* in4 = reinterpret_cast<const float4*>(in);
    float4* out4 = reinterpret_cast<float4*>(out);
    const unsigned vectors = columns / 4;
    float4 held[VECTORS];
#pragma unroll
    for (unsigned i = 0; i < VECTORS; ++i) {
        const unsigned at = lane + 32 * i;
        held[i] = at < vectors ? __ldcs(in4 + at) : make_float4(MINUS_INFINITY, MINUS_INFINITY, MINUS_INFINITY, MINUS_INFINITY);
    }
#pragma unroll
    for (unsigned i = 0; i < VECTORS; ++i) all.add(held[i]);
    for (unsigned at = HELD + lane; at < vectors; at += 32) all.add(in4[at]);
    all.combine();
    const float inverse = 1.0f / all.sum;
#pragma unroll
    for (unsigned i = 0; i < VECTORS; ++i) {
        const unsigned at = lane + 32 * i;
        if (at < vectors) __stcs(out4 + at, all.apply(held[i], inverse));
    }
    for (unsigned at = HELD + lane; at < vectors; at += 32) __stcs(out4 + at, all.apply(in4[at], inverse));
}
