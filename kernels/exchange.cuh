// Sums values over all blocks of a launch without ending the launch.
//
// A value and the number of its round are stored together as one word, whose arrival is its own signal: no counter, lock or fence
// is needed. Every block writes its words, reads the words of all blocks and adds them in the order of the blocks. This takes one trip through L2
// and gives the same bits everywhere and on every run. All blocks have to be resident at once (a cooperative launch ensures that). The
// wait is bounded, so that a failure ends in an error and not in a hang.
#pragma once
#include "reduce.cuh"

// State that all blocks share, in addition to their words.
struct Control {
    unsigned round;   // Number of rounds in earlier launches. This launch continues the count, so that an old word never matches.
    unsigned failed;  // The first round whose wait timed out, counted from 1; 0 if none did.
};

__device__ __forceinline__ unsigned long long make_word(float value, unsigned round) {
    return (unsigned long long)round << 32 | __float_as_uint(value);
}
__device__ __forceinline__ float word_value(unsigned long long word) { return __uint_as_float((unsigned)word); }
__device__ __forceinline__ unsigned word_round(unsigned long long word) { return (unsigned)(word >> 32); }

// Relaxed, device-wide accesses: they bypass L1 and do not order any other access.
__device__ __forceinline__ void store_word(unsigned long long* at, unsigned long long word) {
    asm volatile("st.relaxed.gpu.global.b64 [%0], %1;" ::"l"(at), "l"(word) : "memory");
}
__device__ __forceinline__ unsigned long long load_word(const unsigned long long* at) {
    unsigned long long word;
    asm volatile("ld.relaxed.gpu.global.b64 %0, [%1];" : "=l"(word) : "l"(at) : "memory");
    return word;
}
__device__ __forceinline__ ulonglong2 load_two_words(const unsigned long long* at /* 16-byte aligned */) {
    ulonglong2 words;
    asm volatile("ld.relaxed.gpu.global.v2.b64 {%0, %1}, [%2];" : "=l"(words.x), "=l"(words.y) : "l"(at) : "memory");
    return words;
}

// Counts unsuccessful polls, and reads the clock only now and then.
struct Patience {
    unsigned looks = 0;
    unsigned long long since_ns = 0;

    __device__ __forceinline__ bool ended(unsigned long long limit_ns) {
        if (++looks % 1024 != 0) return false;
        unsigned long long now_ns;
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now_ns));
        if (since_ns == 0) since_ns = now_ns;
        return now_ns - since_ns > limit_ns;
    }
};

// Two sums over all blocks. In each round the block's first warp passes the block's sums to publish(), and gets the sums of all
// blocks from collect().
struct PairExchange {
    static constexpr int SLOT_WORDS = 8;  // Half a cache line per slot, so that slots lie in different slices of L2.

    // [2][blocks][SLOT_WORDS]; two words of each slot are used. Odd and even rounds alternate, since a block may be one round ahead.
    unsigned long long* words;
    Control* control;
    unsigned blocks, base;
    unsigned long long limit_ns;

    __device__ __forceinline__ PairExchange(unsigned long long* words, Control* control, unsigned blocks,
                                            unsigned long long limit_ns)
        : words(words), control(control), blocks(blocks), base(control->round), limit_ns(limit_ns) {}

    // `v` is the first sum in the lower half of the lanes and the second sum in the upper half. Rounds are counted from 1.
    __device__ __forceinline__ void publish(unsigned round, float v) {
        const unsigned lane = threadIdx.x % WARP;
        unsigned long long* mine = words + ((round & 1) * blocks + blockIdx.x) * SLOT_WORDS;
        if (lane % (WARP / 2) == 0) store_word(mine + lane / (WARP / 2), make_word(v, base + round));
    }

    // Sets `v` to the first sum over all blocks in the lower half of the lanes and to the second in the upper half. Returns false after a timeout.
    __device__ __forceinline__ bool collect(unsigned round, float& v) {
        // Five loads in flight cover 160 blocks.
        constexpr int AT_ONCE = 5;
        // About the latency of L2. This value shortens a round of 132 blocks on an H200 by a tenth.
        constexpr int FIRST_LOOK_CLOCKS = 500;
        const unsigned lane = threadIdx.x % WARP, wanted = base + round;
        const unsigned long long* from = words + (round & 1) * blocks * SLOT_WORDS;
        float first = 0.0f, second = 0.0f;
        bool all = true;
        // With many blocks, polls that come too early delay the answers.
        if (blocks > WARP) {
            for (const long long first_look = clock64() + FIRST_LOOK_CLOCKS; clock64() < first_look;) {}
        }
        Patience patience;
        for (unsigned block = lane; block < blocks && all; block += AT_ONCE * WARP) {
            ulonglong2 got[AT_ONCE];
            bool missing[AT_ONCE];
#pragma unroll
            for (int k = 0; k < AT_ONCE; ++k) missing[k] = block + k * WARP < blocks, got[k] = make_ulonglong2(0, 0);
            do {
                all = true;
                // Polls only for missing words, since each poll delays the answers.
#pragma unroll
                for (int k = 0; k < AT_ONCE; ++k) {
                    if (missing[k]) got[k] = load_two_words(from + (block + k * WARP) * SLOT_WORDS);
                }
#pragma unroll
                for (int k = 0; k < AT_ONCE; ++k) {
                    missing[k] = missing[k] && (word_round(got[k].x) != wanted || word_round(got[k].y) != wanted);
                    all &= !missing[k];
                }
            } while (!all && !patience.ended(limit_ns));
#pragma unroll
            for (int k = 0; k < AT_ONCE; ++k) first += word_value(got[k].x), second += word_value(got[k].y);
        }
        if (__any_sync(ALL_LANES, !all)) {
            if (lane == 0) atomicCAS(&control->failed, 0u, round);
            return false;
        }
        v = warp_sum_pair(first, second);
        return true;
    }
};
