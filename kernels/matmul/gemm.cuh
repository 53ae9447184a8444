// What every matrix product shares: element types, operands in either order, and what becomes of an element of C at the end.
//
//   C = f(alpha op(A) op(B) + beta C)      C is [m][ldc], op(A) [m][k], op(B) [k][n]; all row-major, sums in f32
//
// A kernel is compiled with IN and OUT (types of A and B, and of C), TRANS_A and TRANS_B (1: it is stored transposed), and FINISH.
#pragma once

// The values of IN and OUT.
#define TYPE_F32 0
#define TYPE_F16 1
#define TYPE_BF16 2
// The values of FINISH: what f is.
#define FINISH_NONE 0       // v
#define FINISH_BIAS 1       // v + bias[column]
#define FINISH_BIAS_RELU 2  // max(v + bias[column], 0)
#define FINISH_RELU_MASK 3  // v where mask[row][column] > 0, else 0: the gradient through a ReLU

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
#ifndef FINISH
#define FINISH FINISH_NONE
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

// Two numbers rounded to the nearest, ties to even; the first in the lower half.
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
        // Of a NaN the upper half might be that of an infinity.
        return v != v ? 0x7fffu : (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
    };
    return round(low) | round(high) << 16;
#endif
}

// Two f32 do not fit into a word: this is only named, in branches that a kernel for f32 leaves out.
__device__ unsigned pack(float, float low, float high);

template <class T> __device__ __forceinline__ T from_float(float v) { return T{(unsigned short)pack(T{}, v, 0.0f)}; }
template <> __device__ __forceinline__ float from_float<float>(float v) { return v; }

// Where op(A)[row][k] and op(B)[k][column] stand in their arrays.
__device__ __forceinline__ size_t index_a(unsigned row, unsigned k, unsigned lda) {
    return TRANS_A ? (size_t)k * lda + row : (size_t)row * lda + k;
}
__device__ __forceinline__ size_t index_b(unsigned k, unsigned column, unsigned ldb) {
    return TRANS_B ? (size_t)column * ldb + k : (size_t)k * ldb + column;
}

// What becomes of a sum on its way into C. C is read only where beta is not 0, so it may then hold anything.
struct Finish {
    float alpha, beta;
    const float* bias;  // [n], where FINISH asks for it
    const Out* mask;    // [m][ldc], where FINISH asks for it

    // Whether neither C nor a mask is read.
    __device__ __forceinline__ bool is_plain() const { return beta == 0.0f && FINISH != FINISH_RELU_MASK; }

    // The same where it is: of a column of C.
    __device__ __forceinline__ float plain(float sum, unsigned column) const {
        float v = alpha * sum;
        if (FINISH == FINISH_BIAS || FINISH == FINISH_BIAS_RELU) v += bias[column];
        // Not fmaxf: a NaN stays one.
        if (FINISH == FINISH_BIAS_RELU) v = v < 0.0f ? 0.0f : v;
        return v;
    }

    __device__ __forceinline__ float operator()(float sum, const Out* c /* [m][ldc] */, unsigned row, unsigned column,
                                                unsigned ldc) const {
        const size_t at = (size_t)row * ldc + column;
        float v = alpha * sum;
        if (beta != 0.0f) v = fmaf(beta, to_float(c[at]), v);
        if (FINISH == FINISH_BIAS || FINISH == FINISH_BIAS_RELU) v += bias[column];
        if (FINISH == FINISH_BIAS_RELU) v = v < 0.0f ? 0.0f : v;
        if (FINISH == FINISH_RELU_MASK) v = to_float(mask[at]) > 0.0f ? v : 0.0f;
        return v;
    }

    // Of an element that may lie outside C, where anything will do but nothing may be read.
    __device__ __forceinline__ float guarded(float sum, const Out* c /* [m][ldc] */, unsigned row, unsigned column, unsigned m,
                                             unsigned n, unsigned ldc) const {
        return row < m && column < n ? (*this)(sum, c, row, column, ldc) : 0.0f;
    }

    __device__ __forceinline__ void store(Out* c /* [m][ldc] */, unsigned row, unsigned column, unsigned ldc, float sum) const {
        c[(size_t)row * ldc + column] = from_float<Out>((*this)(sum, c, row, column, ldc));
    }

    // Whether two neighbours, the first in an even column, can be stored as one word: every row begins at a multiple of it.
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
