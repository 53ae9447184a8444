// What the rungs without tensor cores share: A and B into shared memory, fragments of them multiplied in registers, C out again.
//
// An operand has an outer extent, m of A or n of B, and k. A lies along k as it is and B transposed; however an operand lies in
// memory, its tile is kept as [BK][outer]: what is multiplied at the same time stands in one row.
#pragma once
#include "matmul/gemm.cuh"

// N neighbours that move as one.
template <class T, int N>
struct alignas(N * sizeof(T)) Group { T of[N]; };

// Whether all rows of an array can be read and written in fours.
template <class T>
__device__ __forceinline__ bool in_fours(const T* array, unsigned ld) {
    return (size_t)array % (4 * sizeof(T)) == 0 && ld % 4 == 0;
}

// An operand, of which a block takes tiles of OUTER x BK.
template <bool ALONG_K, int OUTER>
struct Operand {
    const In* array;  // [outers][ld] along k, else [ks][ld]
    unsigned outers, ks, ld;

    __device__ __forceinline__ const In* at(unsigned outer, unsigned k) const {
        return array + (ALONG_K ? (size_t)outer * ld + k : (size_t)k * ld + outer);
    }

    // 0 where there is no such element. Along k zeros of A meet zeros of B, so that none meets an infinity.
    __device__ __forceinline__ float operator()(unsigned outer, unsigned k) const {
        return outer < outers && k < ks ? to_float(*at(outer, k)) : 0.0f;
    }

    // Brings the tile that begins at (outer0, k0) into shared memory. Neighbouring threads read neighbours.
    template <int PITCH>
    __device__ __forceinline__ void load(float (&tile)[BK][PITCH], unsigned outer0, unsigned k0) const {
        static_assert(OUTER * BK % THREADS == 0, "all threads read equally many elements");
#pragma unroll
        for (int i = 0; i < OUTER * BK / THREADS; ++i) {
            const int from = i * THREADS + threadIdx.x;
            const int outer = ALONG_K ? from / BK : from % OUTER, k = ALONG_K ? from % BK : from / OUTER;
            tile[k][outer] = (*this)(outer0 + outer, k0 + k);
        }
    }

    // The same in fours, where all four are there.
    template <int PITCH>
    __device__ __forceinline__ void load_fours(float (&tile)[BK][PITCH], unsigned outer0, unsigned k0) const {
        static_assert(OUTER * BK % (4 * THREADS) == 0, "all threads read equally many fours");
        static_assert(BK % 4 == 0 && OUTER % 4 == 0 && PITCH % 4 == 0, "fours do not go past the end of a tile's row");
        const bool fours = in_fours(array, ld);
#pragma unroll
        for (int i = 0; i < OUTER * BK / 4 / THREADS; ++i) {
            const int from = i * THREADS + threadIdx.x;
            const int outer = ALONG_K ? from / (BK / 4) : from % (OUTER / 4) * 4;
            const int k = ALONG_K ? from % (BK / 4) * 4 : from / (OUTER / 4);
            float v[4];
            if (fours && outer0 + outer + (ALONG_K ? 0 : 3) < outers && k0 + k + (ALONG_K ? 3 : 0) < ks) {
                const auto four = *reinterpret_cast<const Group<In, 4>*>(at(outer0 + outer, k0 + k));
#pragma unroll
                for (int e = 0; e < 4; ++e) v[e] = to_float(four.of[e]);
            } else {
#pragma unroll
                for (int e = 0; e < 4; ++e) {
                    v[e] = ALONG_K ? (*this)(outer0 + outer, k0 + k + e) : (*this)(outer0 + outer + e, k0 + k);
                }
            }
            if (ALONG_K) {
#pragma unroll
                for (int e = 0; e < 4; ++e) tile[k + e][outer] = v[e];
            } else {
                *reinterpret_cast<float4*>(&tile[k][outer]) = make_float4(v[0], v[1], v[2], v[3]);
            }
        }
    }
};

// A thread's element i of N along an extent: fours that begin APART elements from each other.
template <int APART>
__device__ constexpr int place(int i) { return i / 4 * APART + i % 4; }

// Reads such elements from a row of a tile.
template <int APART, int N>
__device__ __forceinline__ void read_fragment(float (&fragment)[N], const float* first /* shared, 16-byte aligned */) {
    static_assert(N % 4 == 0, "fragments are read in fours");
#pragma unroll
    for (int i = 0; i < N; i += 4) {
        const float4 v = *reinterpret_cast<const float4*>(first + place<APART>(i));
        fragment[i] = v.x, fragment[i + 1] = v.y, fragment[i + 2] = v.z, fragment[i + 3] = v.w;
    }
}

// sums += a b^T, winding to and fro, so that from one step to the next only one of the factors changes: registers lie in two banks
// that give a number a clock each, and a step asks for its sum besides. Short rows first: ptxas keeps that order.
template <int M, int N>
__device__ __forceinline__ void multiply(float (&sums)[M][N], const float (&a)[M], const float (&b)[N]) {
    constexpr int LONG = M < N ? N : M, SHORT = M < N ? M : N;
#pragma unroll
    for (int far = 0; far < LONG; ++far) {
#pragma unroll
        for (int step = 0; step < SHORT; ++step) {
            const int near = far % 2 ? SHORT - 1 - step : step;
            const int i = M < N ? near : far, j = M < N ? far : near;
            sums[i][j] = fmaf(a[i], b[j], sums[i][j]);
        }
    }
}

// Finishes a thread's sums and stores them, in fours where C allows it.
template <int ROWS_APART, int COLUMNS_APART, int M, int N>
__device__ __forceinline__ void store_fours(const Finish& finish, Out* c /* [m][ldc] */, unsigned row0, unsigned column0,
                                            unsigned m, unsigned n, unsigned ldc, const float (&sums)[M][N]) {
    const bool fours = in_fours(c, ldc);
#pragma unroll
    for (int i = 0; i < M; ++i) {
        const unsigned row = row0 + place<ROWS_APART>(i);
        if (row >= m) continue;
#pragma unroll
        for (int j = 0; j < N; j += 4) {
            const unsigned column = column0 + place<COLUMNS_APART>(j);
            if (fours && column + 3 < n) {
                Group<Out, 4> four;
#pragma unroll
                for (int e = 0; e < 4; ++e) four.of[e] = from_float<Out>(finish(sums[i][j + e], c, row, column + e, ldc));
                *reinterpret_cast<Group<Out, 4>*>(c + (size_t)row * ldc + column) = four;
            } else {
#pragma unroll
                for (int e = 0; e < 4; ++e) {
                    if (column + e < n) finish.store(c, row, column + e, ldc, sums[i][j + e]);
                }
            }
        }
    }
}
