// Packs eight adjacent 16-bit elements of a row into four words. The four lanes that have the row's sums exchange words.
#pragma once
#include "nn/activate.cuh"

// Packs a thread's sums of four groups of eight columns into words, after bias and ReLU; sum(j, k) is element k of group j.
template <class T, class Sum>
__device__ __forceinline__ void activated_words(unsigned (&words)[4], const float (&add)[4][2], float least, T, Sum sum) {
#pragma unroll
    for (int j = 0; j < 4; ++j) words[j] = pack(T{}, activate(sum(j, 0), add[j][0], least), activate(sum(j, 1), add[j][1], least));
}

// Transposes words within each group of four lanes: word j of lane t becomes word t of lane j.
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

// Transposes 16-bit halves of words within each group of four lanes: half j of lane t becomes half t of lane j.
__device__ __forceinline__ void transpose_halves_in_four(unsigned (&words)[2], unsigned t) {
    const bool upper = t & 2, odd = t & 1;
    const unsigned pair = __shfl_xor_sync(0xffffffffu, upper ? words[0] : words[1], 2);
    if (upper) words[0] = pair;
    else words[1] = pair;
    const unsigned low = __byte_perm(words[0], words[1], 0x5410), high = __byte_perm(words[0], words[1], 0x7632);
    const unsigned got = __shfl_xor_sync(0xffffffffu, odd ? low : high, 1), kept = odd ? high : low;
    const unsigned even_lanes = odd ? got : kept, odd_lanes = odd ? kept : got;
    words[0] = __byte_perm(even_lanes, odd_lanes, 0x5410), words[1] = __byte_perm(even_lanes, odd_lanes, 0x7632);
}

// Stores 16 bytes with one instruction. Under high register pressure, the compiler would split a plain store into four.
template <class T> __device__ __forceinline__ void store_words(T* to /* [8], at a multiple of 16 bytes */, const unsigned (&words)[4]) {
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3]) : "memory");
}

// Returns a bit for each of eight elements, set if the element is 0 or less. The array must be aligned to 16 bytes.
template <class T> __device__ __forceinline__ unsigned zeros_of(const T* array /* [8] */) {
    const uint4 word = *reinterpret_cast<const uint4*>(array);
    const unsigned of[4] = {word.x, word.y, word.z, word.w};
    unsigned zeros = 0;
#pragma unroll
    for (int e = 0; e < 8; ++e) {
        if (to_float(T{(unsigned short)(of[e / 2] >> e % 2 * 16)}) <= 0.0f) zeros |= 1u << e;
    }
    return zeros;
}

// Sets each of the eight elements to 0 if its bit in `zeros` is set.
__device__ __forceinline__ void clear_words(unsigned (&words)[4], unsigned zeros) {
#pragma unroll
    for (int e = 0; e < 8; ++e) {
        if (zeros >> e & 1) words[e / 2] &= e % 2 ? 0x0000ffffu : 0xffff0000u;
    }
}

// Sets each of the eight elements to 0 if its mask is 0 or less. This is the gradient through a ReLU.
template <class T> __device__ __forceinline__ void mask_words(unsigned (&words)[4], const T* mask /* [8] */) {
    clear_words(words, zeros_of(mask));
}
