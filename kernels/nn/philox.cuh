// Philox4x32-10, uniform and Gaussian numbers and a seeded permutation: the same bits as crates/warpbook-data/src/philox.rs.
//
// Philox: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
// Gaussian: Box and Muller, 1958. The logarithm and cosine consist of single IEEE operations (_rn intrinsics are never contracted to
// FMAs), because library versions of these functions differ between CPUs and GPUs.
// Permutation: a Feistel network (Luby and Rackoff, 1988) over the next power of two, iterated until the result is below n (Black and
// Rogaway, 2002), so that the position of index i is computed without a table.
#pragma once

struct Words {
    unsigned w[4];
};

// Returns the four random words that belong to `seed` and the counter `c`.
__device__ __forceinline__ Words philox(unsigned long long seed, Words c) {
    unsigned k0 = (unsigned)seed, k1 = (unsigned)(seed >> 32);
#pragma unroll
    for (int round = 0; round < 10; ++round) {
        const unsigned hi0 = __umulhi(0xD2511F53u, c.w[0]), lo0 = 0xD2511F53u * c.w[0];
        const unsigned hi1 = __umulhi(0xCD9E8D57u, c.w[2]), lo1 = 0xCD9E8D57u * c.w[2];
        c = {{hi1 ^ c.w[1] ^ k0, lo1, hi0 ^ c.w[3] ^ k1, lo0}};
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return c;
}

// Returns the four random words at position `counter` of the random sequence `stream` of `seed`.
__device__ __forceinline__ Words philox(unsigned long long seed, unsigned long long counter, unsigned stream) {
    return philox(seed, Words{{(unsigned)counter, (unsigned)(counter >> 32), stream, 0u}});
}

// Converts a word to an odd multiple of 2^-24 in (0, 1). The result is exact and never 0.
__device__ __forceinline__ float unit_interval(unsigned word) {
    return __fmul_rn((float)(2u * (word >> 9) + 1u), 5.9604644775390625e-8f);
}

// ln(u) for a normal number u > 0, with an error of about 2 ulp.
__device__ __forceinline__ float natural_log(float u) {
    const int bits = __float_as_int(u);
    // Subtracting the bits of sqrt(1/2) splits u into m 2^e with m in [sqrt(1/2), sqrt(2)).
    const int e = (bits - 0x3f3504f3) >> 23;
    const float m = __int_as_float(bits - (e << 23));
    const float f = __fadd_rn(m, -1.0f);
    const float s = __fdiv_rn(f, __fadd_rn(f, 2.0f));
    const float z = __fmul_rn(s, s);
    float p = 0.11111111f;
    p = __fadd_rn(__fmul_rn(p, z), 0.14285715f);
    p = __fadd_rn(__fmul_rn(p, z), 0.2f);
    p = __fadd_rn(__fmul_rn(p, z), 0.33333334f);
    p = __fadd_rn(__fmul_rn(p, z), 1.0f);
    const float ln_m = __fmul_rn(__fmul_rn(2.0f, s), p);
    return __fadd_rn(__fmul_rn((float)e, 0.69314718f), ln_m);
}

// cos(2 pi v) for v in [0, 1), with an error of about 2^-23.
__device__ __forceinline__ float cos_2pi(float v) {
    const float quarters = __fmul_rn(v, 4.0f);
    const int q = (int)quarters;
    const float t = __fmul_rn(__fadd_rn(quarters, -(float)q), 1.57079633f);
    const float z = __fmul_rn(t, t);
    float c = 2.0876757e-9f;
    c = __fadd_rn(__fmul_rn(c, z), -2.755732e-7f);
    c = __fadd_rn(__fmul_rn(c, z), 2.4801588e-5f);
    c = __fadd_rn(__fmul_rn(c, z), -0.0013888889f);
    c = __fadd_rn(__fmul_rn(c, z), 0.041666668f);
    c = __fadd_rn(__fmul_rn(c, z), -0.5f);
    c = __fadd_rn(__fmul_rn(c, z), 1.0f);
    float s = -2.5052108e-8f;
    s = __fadd_rn(__fmul_rn(s, z), 2.7557319e-6f);
    s = __fadd_rn(__fmul_rn(s, z), -0.0001984127f);
    s = __fadd_rn(__fmul_rn(s, z), 0.008333334f);
    s = __fadd_rn(__fmul_rn(s, z), -0.16666667f);
    s = __fadd_rn(__fmul_rn(s, z), 1.0f);
    s = __fmul_rn(s, t);
    const float value = (q & 1) ? s : c;
    return (q == 1 || q == 2) ? -value : value;
}

// Returns the number at `index` in a sequence of uniform random numbers in (0, 1).
__device__ __forceinline__ float uniform(unsigned long long seed, unsigned long long index, unsigned stream) {
    return unit_interval(philox(seed, index, stream).w[0]);
}

// Returns the number at `index` in a sequence of standard normal random numbers.
__device__ __forceinline__ float gaussian(unsigned long long seed, unsigned long long index, unsigned stream) {
    const Words r = philox(seed, index, stream);
    const float radius = __fsqrt_rn(__fmul_rn(-2.0f, natural_log(unit_interval(r.w[0]))));
    return __fmul_rn(radius, cos_2pi(unit_interval(r.w[1])));
}

// The position of index i in a permutation of 0..n. n is at least 1 and at most 2^62.
__device__ __forceinline__ unsigned long long permute(unsigned long long seed, unsigned long long i,
                                                      unsigned long long n) {
    constexpr unsigned STREAM = 0x7065726du, ROUNDS = 12;
    int width = n > 1 ? 64 - __clzll((long long)(n - 1)) : 0;
    if (width < 2) width = 2;
    const int low = width / 2;
    const unsigned mask_a = (unsigned)((1ull << low) - 1), mask_b = (unsigned)((1ull << (width - low)) - 1);
    do {
        unsigned a = (unsigned)i & mask_a, b = (unsigned)(i >> low) & mask_b;
        for (unsigned round = 0; round < ROUNDS; round += 2) {
            a ^= philox(seed, b, STREAM + round).w[0] & mask_a;
            b ^= philox(seed, a, STREAM + round + 1).w[0] & mask_b;
        }
        i = ((unsigned long long)b << low) | a;
    } while (i >= n);
    return i;
}
