// Eight adjacent 16-bit elements of a row as four words, put together by the four lanes that hold a row's sums.
#pragma once
#include "matmul/gemm.cuh"

// Word j of lane t of each four lanes becomes word t of lane j.
__device__ __forceinline__ void transpose_in_four(unsigned (&words)[4], unsigned t) {
#pragma unroll
    for (int distance = 1; distance <= 2; distance *= 2) {
        const bool upper = t & distance;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int low = distance == 1 ? i * 2 : i, high = low + distance;
            const unsigned got = __shfl_xor_sync(0xffffffffu, upper ? words[low] : words[high], distance);
            if (upper) words[low] = got;
            else words[high] = got;
        }
    }
}

// Sets the elements to 0 whose mask is 0 or less: the gradient through a ReLU. The mask begins at a multiple of 16 bytes.
template <class T> __device__ __forceinline__ void mask_words(unsigned (&words)[4], const T* mask /* [8] */) {
    const uint4 word = *reinterpret_cast<const uint4*>(mask);
    const unsigned of[4] = {word.x, word.y, word.z, word.w};
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        if (to_float(T{(unsigned short)of[j]}) <= 0.0f) words[j] &= 0xffff0000u;
        if (to_float(T{(unsigned short)(of[j] >> 16)}) <= 0.0f) words[j] &= 0x0000ffffu;
    }
}
