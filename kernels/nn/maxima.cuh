// Maxima over 2 x 2 windows of tensor core sums: a thread has both rows of one column, and the thread 4 lanes further has the next column.
//
// The rules of pool.cu: if there is a NaN, the maximum is NaN and the last NaN gives the tap; otherwise the first of equal maxima gives the tap.
#pragma once
#include "nn/words.cuh"

// For each 16-bit half of two words: largest() returns the maximum, or NaN if either is NaN; larger() returns all ones if a > b or a is NaN.
#if __CUDA_ARCH__ >= 900
#define HALVES(T, TYPE) \
    __device__ __forceinline__ unsigned largest(unsigned a, unsigned b, T) { \
        unsigned v; \
        asm("max.NaN." TYPE " %0, %1, %2;" : "=r"(v) : "r"(a), "r"(b)); \
        return v; \
    } \
    __device__ __forceinline__ unsigned larger(unsigned a, unsigned b, T) { \
        unsigned greater, nan; \
        asm("set.gt.u32." TYPE " %0, %1, %2;" : "=r"(greater) : "r"(a), "r"(b)); \
        asm("set.nan.u32." TYPE " %0, %1, %1;" : "=r"(nan) : "r"(a)); \
        return greater | nan; \
    }
HALVES(f16, "f16x2")
HALVES(bf16, "bf16x2")
#undef HALVES
#else
template <class T> __device__ __forceinline__ unsigned larger(unsigned a, unsigned b, T) {
    unsigned halves = 0;
#pragma unroll
    for (int i = 0; i < 32; i += 16) {
        const float v = to_float(T{(unsigned short)(a >> i)}), w = to_float(T{(unsigned short)(b >> i)});
        if (v > w || v != v) halves |= 0xffffu << i;
    }
    return halves;
}
template <class T> __device__ __forceinline__ unsigned largest(unsigned a, unsigned b, T) {
    const unsigned first = larger(a, b, T{});
    return (a & first) | (b & ~first);
}
#endif

// The two bits that represent the halves of word j in a bit mask.
__device__ __forceinline__ constexpr unsigned halves_of(int j) { return 0x00010001u << j; }

// Maxima of two units of four words: lanes with left columns get the maxima of the first unit, lanes with right columns those of the second.
template <class T>
struct Maxima {
    unsigned words[2][4];  // the larger values of the two rows
    unsigned below = 0;    // a bit for each half whose maximum is in the lower row: halves_of(4 unit + j)

    __device__ __forceinline__ void rows(int unit, const unsigned (&upper)[4], const unsigned (&lower)[4]) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            words[unit][j] = largest(upper[j], lower[j], T{});
            below |= larger(lower[j], upper[j], T{}) & halves_of(4 * unit + j);
        }
    }

    // Returns the maxima of the lane's unit as eight adjacent elements, and their taps as one byte each.
    __device__ __forceinline__ void columns(unsigned (&best)[4], unsigned (&taps)[2]) const {
        const bool is_right = threadIdx.x & 4;
        const unsigned below_there = __shfl_xor_sync(0xffffffffu, below, 4);
        unsigned here_larger = 0, there_larger = 0;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const unsigned here = is_right ? words[1][j] : words[0][j];
            const unsigned there = __shfl_xor_sync(0xffffffffu, is_right ? words[0][j] : words[1][j], 4);
            best[j] = largest(here, there, T{});
            here_larger |= larger(here, there, T{}) & halves_of(j);
            there_larger |= larger(there, here, T{}) & halves_of(j);
        }
        const unsigned here = below >> (is_right ? 4 : 0), there = below_there >> (is_right ? 4 : 0);
        const unsigned left = is_right ? there : here, right = is_right ? here : there;
        const unsigned left_larger = is_right ? there_larger : here_larger, right_larger = is_right ? here_larger : there_larger;
        // If the two columns have equal maxima or are both NaN, the tap follows from the rows of their maxima.
        const unsigned is_first = left & ~right;
        const unsigned column = (right_larger & ~left_larger) | (~(left_larger ^ right_larger) & (right_larger ^ is_first));
        const unsigned row = (column & right) | (~column & left);
        unsigned of[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) of[j] = (row >> j & 0x00010001u) * 2 | (column >> j & 0x00010001u);
        taps[0] = __byte_perm(of[0], of[1], 0x6420), taps[1] = __byte_perm(of[2], of[3], 0x6420);
        transpose_in_four(best, threadIdx.x % 4);
        transpose_halves_in_four(taps, threadIdx.x % 4);
    }
};

// Stores eight taps at once.
__device__ __forceinline__ void store_taps(unsigned char* to /* [8], at a multiple of 8 bytes */, const unsigned (&taps)[2]) {
    asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(to), "r"(taps[0]), "r"(taps[1]) : "memory");
}
