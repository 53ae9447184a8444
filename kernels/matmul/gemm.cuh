// Code that all matrix products share: element types, operands stored in either order, and the epilogue of an element of C.
//
//   C = f(alpha op(A) op(B) + beta C)      C is [m][ldc], op(A) [m][k], op(B) [k][n]; all row-major, sums in f32
//
// A kernel is compiled with IN (type of A and B), OUT (type of C), TRANS_A and TRANS_B (1: stored transposed), and EPILOGUE.
#pragma once
#include "xray.cuh"

// The values of IN and OUT.
#define TYPE_F32 0
#define TYPE_F16 1
#define TYPE_BF16 2
// The values of EPILOGUE: the function f.
#define EPILOGUE_NONE 0       // f(v) = v
#define EPILOGUE_BIAS 1       // v + bias[column]
#define EPILOGUE_BIAS_RELU 2  // max(v + bias[column], 0)
#define EPILOGUE_RELU_MASK 3  // 0 if mask[row][column] <= 0, otherwise v: the gradient through a ReLU
#define EPILOGUE_GELU 4       // gelu(v), the exact form: v times the normal distribution function
#define EPILOGUE_BIAS_GELU 5  // gelu(v + bias[column])

#ifndef IN
#define IN TYPE_F32
#endif
#ifndef OUT
#define OUT IN
#endif
#ifndef TRANS_A
#define TRANS_A 0
#endif
#ifndef TRANS_B
#define TRANS_B 0
#endif
#ifndef EPILOGUE
#define EPILOGUE EPILOGUE_NONE
#endif

struct f16 { unsigned short bits; };
struct bf16 { unsigned short bits; };

template <int TYPE> struct ElementOf;
template <> struct ElementOf<TYPE_F32> { using Type = float; };
template <> struct ElementOf<TYPE_F16> { using Type = f16; };
template <> struct ElementOf<TYPE_BF16> { using Type = bf16; };
using In = ElementOf<IN>::Type;
using Out = ElementOf<OUT>::Type;

__device__ __forceinline__ float to_float(float v) { return v; }
__device__ __forceinline__ float to_float(bf16 v) { return __uint_as_float((unsigned)v.bits << 16); }
__device__ __forceinline__ float to_float(f16 v) {
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(v.bits));
    return f;
}

// Rounds two numbers to the nearest, ties to even, and packs them into a word; the first is in the lower half.
__device__ __forceinline__ unsigned pack(f16, float low, float high) {
    unsigned packed;
#if __CUDA_ARCH__ >= 800
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
#else
    asm("{\n.reg .b16 l, h;\ncvt.rn.f16.f32 l, %1;\ncvt.rn.f16.f32 h, %2;\nmov.b32 %0, {l, h};\n}"
        : "=r"(packed) : "f"(low), "f"(high));
#endif
    return packed;
}
__device__ __forceinline__ unsigned pack(bf16, float low, float high) {
#if __CUDA_ARCH__ >= 800
    unsigned packed;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    return packed;
#else
    const auto round = [](float v) {
        const unsigned bits = __float_as_uint(v);
        // The upper half of a NaN's bits may be an infinity, so NaN is a separate case.
        return v != v ? 0x7fffu : (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
    };
    return round(low) | round(high) << 16;
#endif
}

// Two f32 do not fit into a word, so this is only declared: the branches that call it are discarded in kernels for f32.
__device__ unsigned pack(float, float low, float high);

template <class T> __device__ __forceinline__ T from_float(float v) { return T{(unsigned short)pack(T{}, v, 0.0f)}; }
template <> __device__ __forceinline__ float from_float<float>(float v) { return v; }

// These two functions return the index of op(A)[row][k] in A and of op(B)[k][column] in B.
__device__ __forceinline__ size_t index_a(unsigned row, unsigned k, unsigned lda) {
    return TRANS_A ? (size_t)k * lda + row : (size_t)row * lda + k;
}
__device__ __forceinline__ size_t index_b(unsigned k, unsigned column, unsigned ldb) {
    return TRANS_B ? (size_t)column * ldb + k : (size_t)k * ldb + column;
}

// The exact form of GELU, the default of torch.nn.GELU.
__device__ __forceinline__ float gelu(float v) { return 0.5f * v * (1.0f + erff(0.70710678f * v)); }

// Turns a sum into an element of C. C is read only if beta is not 0; otherwise it may contain anything, even NaN.
struct Epilogue {
    static constexpr bool HAS_BIAS = EPILOGUE == EPILOGUE_BIAS || EPILOGUE == EPILOGUE_BIAS_RELU || EPILOGUE == EPILOGUE_BIAS_GELU;

    float alpha, beta;
    const float* bias;  // [n], read by epilogues with a bias
    const Out* mask;    // [m][ldc], read by EPILOGUE_RELU_MASK

    __device__ __forceinline__ static float activate(float v) {
        // A comparison keeps a NaN; fmaxf would turn it into 0.
        if (EPILOGUE == EPILOGUE_BIAS_RELU) v = v < 0.0f ? 0.0f : v;
        if (EPILOGUE == EPILOGUE_GELU || EPILOGUE == EPILOGUE_BIAS_GELU) v = gelu(v);
        return v;
    }

    // True if the epilogue reads neither C nor the mask.
    __device__ __forceinline__ bool is_plain() const { return beta == 0.0f && EPILOGUE != EPILOGUE_RELU_MASK; }

    // Applies a plain epilogue, which depends only on the sum and the column.
    __device__ __forceinline__ float plain(float sum, unsigned column) const {
        float v = alpha * sum;
        if (HAS_BIAS) v += bias[column];
        return activate(v);
    }

    __device__ __forceinline__ float operator()(float sum, const Out* c /* [m][ldc] */, unsigned row, unsigned column,
                                                unsigned ldc) const {
        const size_t at = (size_t)row * ldc + column;
        float v = alpha * sum;
        if (beta != 0.0f) v = fmaf(beta, to_float(c[at]), v);
        if (HAS_BIAS) v += bias[column];
        v = activate(v);
        if (EPILOGUE == EPILOGUE_RELU_MASK) v = to_float(mask[at]) <= 0.0f ? 0.0f : v;
        return v;
    }

    // Applies the epilogue to an element that may lie outside C: the value does not matter then, but nothing may be read from outside C.
    __device__ __forceinline__ float guarded(float sum, const Out* c /* [m][ldc] */, unsigned row, unsigned column, unsigned m,
                                             unsigned n, unsigned ldc) const {
        return row < m && column < n ? (*this)(sum, c, row, column, ldc) : 0.0f;
    }

    __device__ __forceinline__ void store(Out* c /* [m][ldc] */, unsigned row, unsigned column, unsigned ldc, float sum) const {
        c[(size_t)row * ldc + column] = from_float<Out>((*this)(sum, c, row, column, ldc));
    }

    // Returns true if two adjacent elements, the first in an even column, can be stored as one word in every row.
    __device__ __forceinline__ static bool in_pairs(const Out* c, unsigned n, unsigned ldc) {
        return n % 2 == 0 && ldc % 2 == 0 && (size_t)c % (2 * sizeof(Out)) == 0;
    }
};

__device__ __forceinline__ void store_word(float* at, float first, float second) {
    *reinterpret_cast<float2*>(at) = make_float2(first, second);
}
template <class T> __device__ __forceinline__ void store_word(T* at, float first, float second) {
    *reinterpret_cast<unsigned*>(at) = pack(T{}, first, second);
}
