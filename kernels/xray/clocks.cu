// Idea: each SM's clock counter has its own starting point; the round-trip time of a message bounds the offset of two counters.
// Formula: the counter of block i minus the counter of block 0 lies in [answered - received, answered - asked] in each round: the offset of their SMs.
// Since the last rung: none; %globaltimer, which all SMs share, ticks too seldom to order the SMs' work.
// Needs: a block on every SM at once: a cooperative launch, with enough shared memory that no SM takes two blocks.
// Expect: intervals as wide as the round trip through L2, some hundred nanoseconds; their intersection is narrower.
#include "exchange.cuh"

// Words of a block: one line for the question and one for the answer.
constexpr unsigned LINE = 16, WORDS = 2 * LINE;

__device__ __forceinline__ long long now() {
    long long clock;
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(clock)::"memory");
    return clock;
}
__device__ __forceinline__ unsigned long long global_ns() {
    unsigned long long ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns)::"memory");
    return ns;
}

// Stores the counter and the time just after %globaltimer has ticked.
__device__ __forceinline__ void stamp(unsigned long long* to /* [2]: clock, ns */) {
    const unsigned long long before = global_ns();
    unsigned long long ns;
    do ns = global_ns();
    while (ns == before);
    to[0] = now(), to[1] = ns;
}

// Waits until the word has the wanted value; returns false if the wait timed out.
__device__ __forceinline__ bool wait_for(const unsigned long long* word, unsigned long long wanted, unsigned long long limit_ns) {
    Patience patience;
    while (load_word(word) != wanted) {
        if (patience.ended(limit_ns)) return false;
    }
    return true;
}

extern "C" __global__ void __launch_bounds__(THREADS)
sm_clocks(unsigned long long* words /* [blocks][WORDS], zeros */, long long* samples /* [blocks][rounds][3]: asked, answered, received */,
          unsigned* sms /* [blocks] */, unsigned long long* stamps /* [2][2]: clock, ns of block 0 at its begin and its end */,
          unsigned* failed /* [1] */, unsigned rounds, unsigned long long limit_ns) {
    if (threadIdx.x != 0) return;
    unsigned sm;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    sms[blockIdx.x] = sm;
    if (blockIdx.x > 0) {
        unsigned long long* mine = words + (size_t)blockIdx.x * WORDS;
        for (unsigned round = 0; round < rounds; ++round) {
            if (!wait_for(mine, round + 1, limit_ns)) {
                *failed = 1;
                return;
            }
            const long long answered = now();
            store_word(mine + LINE, round + 1);
            samples[((size_t)blockIdx.x * rounds + round) * 3 + 1] = answered;
        }
        return;
    }
    stamp(stamps);
    for (unsigned block = 1; block < gridDim.x; ++block) {
        unsigned long long* theirs = words + (size_t)block * WORDS;
        for (unsigned round = 0; round < rounds; ++round) {
            const long long asked = now();
            store_word(theirs, round + 1);
            if (!wait_for(theirs + LINE, round + 1, limit_ns)) {
                *failed = 1;
                return;
            }
            const long long received = now();
            samples[((size_t)block * rounds + round) * 3] = asked;
            samples[((size_t)block * rounds + round) * 3 + 2] = received;
        }
    }
    stamp(stamps + 2);
}
