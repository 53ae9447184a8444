// Code that the rungs on CUDA cores share: loading tiles of A and B into shared memory, multiplying fragments in registers, storing C.
//
// An operand has an outer extent (m of A, n of B) and k. A is contiguous along k unless it is stored transposed, and B only if it is stored transposed.
// Either way its tile in shared memory is [BK][outer], so that the elements multiplied in one step are in one row.
#pragma once
#include "matmul/gemm.cuh"

// A vector of N adjacent elements that is loaded or stored with one instruction.
template <class T, int N>
struct alignas(N * sizeof(T)) Group { T of[N]; };

// True if every row of an array can be read and written in vectors of four.
template <class T>
__device__ __forceinline__ bool allows_vec4(const T* array, unsigned ld) {
    return (size_t)array % (4 * sizeof(T)) == 0 && ld % 4 == 0;
}

// An operand whose tiles of OUTER x BK a block loads into shared memory.
template <bool ALONG_K, int OUTER>
struct Operand {
    const In* array;  // [outers][ld] along k, else [ks][ld]
    unsigned outers, ks, ld;

    __device__ __forceinline__ const In* at(unsigned outer, unsigned k) const {
        return array + (ALONG_K ? (size_t)outer * ld + k : (size_t)k * ld + outer);
    }

    // Returns an element, or 0 outside the matrix. Past the end of k both A and B give 0, so that no 0 is multiplied by an infinity.
    __device__ __forceinline__ float operator()(unsigned outer, unsigned k) const {
        return outer < outers && k < ks ? to_float(*at(outer, k)) : 0.0f;
    }

    // Loads the tile at (outer0, k0) into shared memory. Adjacent threads read adjacent elements.
    template <int PITCH>
    __device__ __forceinline__ void load(float (&tile)[BK][PITCH], unsigned outer0, unsigned k0) const {
        static_assert(OUTER * BK % THREADS == 0, "every thread loads the same number of elements");
#pragma unroll
        for (int i = 0; i < OUTER * BK / THREADS; ++i) {
            const int from = i * THREADS + threadIdx.x;
            const int outer = ALONG_K ? from / BK : from % OUTER, k = ALONG_K ? from % BK : from / OUTER;
            tile[k][outer] = (*this)(outer0 + outer, k0 + k);
        }
    }

    // Loads the tile at (outer0, k0) in vectors of four wherever all four elements exist.
    template <int PITCH>
    __device__ __forceinline__ void load_vec4(float (&tile)[BK][PITCH], unsigned outer0, unsigned k0) const {
        static_assert(OUTER * BK % (4 * THREADS) == 0, "every thread loads the same number of vectors");
        static_assert(BK % 4 == 0 && OUTER % 4 == 0 && PITCH % 4 == 0, "a vector does not cross the end of a row of the tile");
        const bool vec4 = allows_vec4(array, ld);
#pragma unroll
        for (int i = 0; i < OUTER * BK / 4 / THREADS; ++i) {
            const int from = i * THREADS + threadIdx.x;
            const int outer = ALONG_K ? from / (BK / 4) : from % (OUTER / 4) * 4;
            const int k = ALONG_K ? from % (BK / 4) * 4 : from / (OUTER / 4);
            float v[4];
            if (vec4 && outer0 + outer + (ALONG_K ? 0 : 3) < outers && k0 + k + (ALONG_K ? 3 : 0) < ks) {
                const auto vector = *reinterpret_cast<const Group<In, 4>*>(at(outer0 + outer, k0 + k));
#pragma unroll
                for (int e = 0; e < 4; ++e) v[e] = to_float(vector.of[e]);
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

// Returns the position of a thread's element i along an extent; the thread's vectors of four are APART elements apart.
template <int APART>
__device__ constexpr int place(int i) { return i / 4 * APART + i % 4; }

// Reads a thread's N elements from a row of a tile.
template <int APART, int N>
__device__ __forceinline__ void read_fragment(float (&fragment)[N], const float* first /* shared, 16-byte aligned */) {
    static_assert(N % 4 == 0, "fragments are read in vectors of four");
#pragma unroll
    for (int i = 0; i < N; i += 4) {
        const float4 v = *reinterpret_cast<const float4*>(first + place<APART>(i));
        fragment[i] = v.x, fragment[i + 1] = v.y, fragment[i + 2] = v.z, fragment[i + 3] = v.w;
    }
}

// sums += a b^T in a serpentine order: only one factor changes from one FMA to the next. The register file has two banks, each of
// which delivers one operand a clock, and an FMA also reads its sum. The shorter extent is the inner loop: ptxas keeps this order.
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

// Applies the epilogue to a thread's sums and stores them, in vectors of four if C's alignment allows it.
template <int ROWS_APART, int COLUMNS_APART, int M, int N>
__device__ __forceinline__ void store_vec4(const Epilogue& epilogue, Out* c /* [m][ldc] */, unsigned row0, unsigned column0,
                                            unsigned m, unsigned n, unsigned ldc, const float (&sums)[M][N]) {
    const bool vec4 = allows_vec4(c, ldc);
#pragma unroll
    for (int i = 0; i < M; ++i) {
        const unsigned row = row0 + place<ROWS_APART>(i);
        if (row >= m) continue;
#pragma unroll
        for (int j = 0; j < N; j += 4) {
            const unsigned column = column0 + place<COLUMNS_APART>(j);
            if (vec4 && column + 3 < n) {
                Group<Out, 4> vector;
#pragma unroll
                for (int e = 0; e < 4; ++e) vector.of[e] = from_float<Out>(epilogue(sums[i][j + e], c, row, column + e, ldc));
                *reinterpret_cast<Group<Out, 4>*>(c + (size_t)row * ldc + column) = vector;
            } else {
#pragma unroll
                for (int e = 0; e < 4; ++e) {
                    if (column + e < n) epilogue.store(c, row, column + e, ldc, sums[i][j + e]);
                }
            }
        }
    }
}
