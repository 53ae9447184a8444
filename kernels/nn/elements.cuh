// Arrays of elements of type IN, processed in groups of 16 bytes, in f32.
#pragma once
#include "matmul/gemm.cuh"

// The number of elements of type IN in 16 bytes.
constexpr int GROUP = 16 / sizeof(In);

// True if groups of an array can be read as one word of 16 bytes.
__device__ __forceinline__ bool in_groups(const void* array) { return (size_t)array % 16 == 0; }

__device__ __forceinline__ void unpack(const uint4& words, float* v /* [4] */, float) {
    v[0] = __uint_as_float(words.x);
    v[1] = __uint_as_float(words.y);
    v[2] = __uint_as_float(words.z);
    v[3] = __uint_as_float(words.w);
}
template <class T> __device__ __forceinline__ void unpack(const uint4& words, float* v /* [8] */, T) {
    const unsigned w[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        v[2 * i] = to_float(T{(unsigned short)w[i]});
        v[2 * i + 1] = to_float(T{(unsigned short)(w[i] >> 16)});
    }
}
__device__ __forceinline__ uint4 packed(const float* v /* [4] */, float) {
    return make_uint4(__float_as_uint(v[0]), __float_as_uint(v[1]), __float_as_uint(v[2]), __float_as_uint(v[3]));
}
template <class T> __device__ __forceinline__ uint4 packed(const float* v /* [8] */, T) {
    return make_uint4(pack(T{}, v[0], v[1]), pack(T{}, v[2], v[3]), pack(T{}, v[4], v[5]), pack(T{}, v[6], v[7]));
}

// Loads 16 bytes of an array, from element `first` on; elements past the end of the array are 0. `grouped` is the result of in_groups();
// `first` must be a multiple of the group's size, which is GROUP for an array of type IN.
template <class T>
__device__ __forceinline__ void load_group(const T* from /* [n] */, size_t first, size_t n, bool grouped, float (&v)[16 / sizeof(T)]) {
    constexpr int COUNT = 16 / sizeof(T);
    if (grouped && n - first >= COUNT) {
        unpack(*reinterpret_cast<const uint4*>(from + first), v, T{});
    } else {
#pragma unroll
        for (int k = 0; k < COUNT; ++k) v[k] = first + k < n ? to_float(from[first + k]) : 0.0f;
    }
}

// Rounds and stores a group, except for elements past the end of the array.
__device__ __forceinline__ void store_group(In* to /* [n] */, size_t first, size_t n, bool grouped, const float (&v)[GROUP]) {
    if (grouped && n - first >= GROUP) {
        *reinterpret_cast<uint4*>(to + first) = packed(v, In{});
    } else {
#pragma unroll
        for (int k = 0; k < GROUP; ++k)
            if (first + k < n) to[first + k] = from_float<In>(v[k]);
    }
}

// Calls work(first) for each of this thread's groups in an array of n elements, with a grid-stride loop.
template <class Work> __device__ __forceinline__ void each_group(size_t n, Work work) {
    const size_t step = (size_t)gridDim.x * THREADS * GROUP;
    for (size_t first = ((size_t)blockIdx.x * THREADS + threadIdx.x) * GROUP; first < n; first += step) work(first);
}

// Sets out[i] = f(a[i]) for i below n. A thread reads a group before it stores the results, so `out` may equal `a`.
template <class F> __device__ __forceinline__ void map(const In* a /* [n] */, In* out /* [n] */, size_t n, F f) {
    const bool grouped = in_groups(a) && in_groups(out);
    each_group(n, [&](size_t first) {
        float v[GROUP];
        load_group(a, first, n, grouped, v);
#pragma unroll
        for (int k = 0; k < GROUP; ++k) v[k] = f(v[k]);
        store_group(out, first, n, grouped, v);
    });
}

// Sets out[i] = f(a[i], b[i]) for i below n. `out` may equal `a` or `b`.
template <class F> __device__ __forceinline__ void map(const In* a /* [n] */, const In* b /* [n] */, In* out /* [n] */, size_t n, F f) {
    const bool grouped = in_groups(a) && in_groups(b) && in_groups(out);
    each_group(n, [&](size_t first) {
        float v[GROUP], w[GROUP];
        load_group(a, first, n, grouped, v);
        load_group(b, first, n, grouped, w);
#pragma unroll
        for (int k = 0; k < GROUP; ++k) v[k] = f(v[k], w[k]);
        store_group(out, first, n, grouped, v);
    });
}
