// Stores the sums of kernels with one tile per block, or the part for which a block is responsible.
//
// A thread holds two neighbouring elements of a row, or of a column if the product is computed transposed. Stores from registers
// would touch each line of C in small pieces. Tiles are therefore stored in whole lines if C's rows allow that: through the stages, which are free
// once all consumers have read them, or after an exchange of elements among four lanes.
#pragma once
#include "matmul/persistent.cuh"

// Number of blocks that split the k of a tile.
#ifndef SPLIT
#define SPLIT 1
#endif
constexpr int CONSUMER_THREADS = CONSUMERS * WARPGROUP;
static_assert(!SWAPPED || sizeof(Out) == 2, "a warp transposes 16-bit elements");

__device__ __forceinline__ float4 load_shared(unsigned address) {
    float4 v;
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "r"(address) : "memory");
    return v;
}

// Waits for all consumers. Afterwards all stages have been read, so that C's tile may overwrite them.
__device__ __forceinline__ void meet_before_staging() { asm volatile("bar.sync 1, %0;" ::"n"(CONSUMER_THREADS) : "memory"); }
constexpr int PIECE = 16 / sizeof(Out);  // Elements that a thread writes at once.
__device__ __forceinline__ bool in_pieces(const Out* c, unsigned n, unsigned ldc) {
    return n % PIECE == 0 && ldc % PIECE == 0 && (size_t)c % 16 == 0;
}
// Writes ROWS x COLUMNS elements from shared memory, with rows of PITCH bytes, to C at (row, column) with THREADS_OF threads.
template <int ROWS, int COLUMNS, int PITCH, int THREADS_OF>
__device__ __forceinline__ void write_lines(unsigned staged, Out* __restrict__ c /* [m][ldc] */, unsigned m, unsigned n, unsigned ldc,
                                            unsigned row, unsigned column) {
    constexpr unsigned PIECES = COLUMNS / PIECE, ALL = ROWS * PIECES;
    const unsigned thread = threadIdx.x % THREADS_OF;
#pragma unroll
    for (unsigned first = 0; first < ALL; first += THREADS_OF) {
        const unsigned i = first + thread, r = i / PIECES, at = i % PIECES;
        if (i >= ALL || row + r >= m || column + at * PIECE >= n) continue;
        *reinterpret_cast<float4*>(c + (size_t)(row + r) * ldc + column + at * PIECE) = load_shared(staged + r * PITCH + at * 16);
    }
}

// Applies the epilogue to a warpgroup's sums and stores them: 64 rows from `row` on, 2 N columns from `column` on. `place` says which 64 rows
// of the tile these are.
template <int N>
__device__ __forceinline__ void store_part(const float (&d)[N], unsigned stages, int place, Out* __restrict__ c /* [m][ldc] */, unsigned m, unsigned n,
                                           unsigned ldc, unsigned row, unsigned column, const Epilogue& epilogue) {
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    const bool quick = epilogue.is_plain() && Epilogue::in_pairs(c, n, ldc);
    // Past the edge of C any bias will do, so the bias of the last columns is read.
    const auto pair = [&](int i, float (&both)[2]) {
        const unsigned at = min(column + i / 4 * 8 + lane % 4 * 2, n - 2);
        both[0] = epilogue.plain(d[i], at), both[1] = epilogue.plain(d[i + 1], at + 1);
    };
    // 16-bit sums over a whole k are stored from registers, in chunks of 16 bytes: such stores need not wait for other warpgroups, which was 2 % faster
    // on an H200, and 6.5 % in products below 4 us.
    constexpr bool THROUGH_STAGES = N >= 32 && (SPLIT > 1 || sizeof(Out) == 4);
    if constexpr (THROUGH_STAGES) {
        if (quick && in_pieces(c, n, ldc)) {
            // Rows are padded so that eight rows lie in different banks.
            constexpr unsigned PITCH = 2 * N * sizeof(Out) + (sizeof(Out) == 2 ? 16 : 32);
            static_assert(64 * HEIGHT * CONSUMERS * PITCH <= STAGES * STAGE_BYTES, "C's tile, or a block's part of it, fits into the stages");
            const unsigned own = stages + (64 * place + 16 * warp) * PITCH;
            meet_before_staging();
            float v[2];
            if constexpr (sizeof(Out) == 2) {
                static_assert(N % 8 == 0, "two groups of eight columns at a time");
#pragma unroll
                for (int j = 0; j < N / 4; j += 2) {
                    unsigned words[4];  // [2 jj + h]
#pragma unroll
                    for (int w = 0; w < 4; ++w) pair(4 * (j + w / 2) + 2 * (w % 2), v), words[w] = pack(Out{}, v[0], v[1]);
                    // Each lane passes to stmatrix the address of row lane % 8 of matrix lane / 8.
                    const unsigned to = own + (lane / 8 % 2 * 8 + lane % 8) * PITCH + (j + lane / 16) * 16;
                    write_pieces(to, words[0], words[1], words[2], words[3]);
                }
            } else {
#pragma unroll
                for (int i = 0; i < N; i += 2) {
                    pair(i, v);
                    const unsigned to = own + (i / 2 % 2 * 8 + lane / 4) * PITCH + (i / 4 * 8 + lane % 4 * 2) * 4;
                    asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(to), "f"(v[0]), "f"(v[1]) : "memory");
                }
            }
            __syncwarp();
            write_lines<16, 2 * N, PITCH, 32>(own, c, m, n, ldc, row + 16 * warp, column);
            return;
        }
    } else if constexpr (sizeof(Out) == 2 && N >= 16) {
        if (quick && in_pieces(c, n, ldc)) {
            unsigned pairs[N / 2];
            float v[2];
#pragma unroll
            for (int i = 0; i < N / 2; ++i) pair(2 * i, v), pairs[i] = pack(Out{}, v[0], v[1]);
            store_wide(pairs, c, m, n, ldc, row, column);
            return;
        }
    }
#pragma unroll
    for (int i = 0; i < N; i += 2) {
        const unsigned r = row + 16 * warp + lane / 4 + i / 2 % 2 * 8, at = column + i / 4 * 8 + lane % 4 * 2;
        if (r >= m) continue;
        if (quick) {
            if (at < n) store_word(c + (size_t)r * ldc + at, epilogue.plain(d[i], at), epilogue.plain(d[i + 1], at + 1));
        } else {
            if (at < n) epilogue.store(c, r, at, ldc, d[i]);
            if (at + 1 < n) epilogue.store(c, r, at + 1, ldc, d[i + 1]);
        }
    }
}

// Stores a product that is computed transposed: 2 N rows from `row` on, 64 columns from `column` on. A lane holds two rows of a column:
// stmatrix transposes them on the way to shared memory, or movmatrix across the warp if C's rows are not aligned to 16 bytes.
template <int N>
__device__ __forceinline__ void store_swapped(const float (&d)[N], unsigned stages, int place, Out* __restrict__ c /* [m][ldc] */, unsigned m,
                                              unsigned n, unsigned ldc, unsigned row, unsigned column, const Epilogue& epilogue) {
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4, first = column + warp * 16;
    const bool plain = epilogue.is_plain(), quick = Epilogue::in_pairs(c, n, ldc);
    // Returns rows i and i + 1 of a column. Past the edge of C any bias will do, so the bias of the last column is read.
    const auto two = [&](int i) {
        const unsigned at = first + lane / 4 + i / 2 % 2 * 8, r = row + i / 4 * 8 + lane % 4 * 2;
        const auto value = [&](int e) {
            return plain ? epilogue.plain(d[i + e], min(at, n - 1)) : epilogue.guarded(d[i + e], c, r + e, at, m, n, ldc);
        };
        return pack(Out{}, value(0), value(1));
    };
    if (in_pieces(c, n, ldc)) {
        constexpr unsigned PITCH = 64 * 2 + 16;  // Padded so that eight rows lie in different banks.
        constexpr int GROUPS = N / 4;            // Groups of eight rows: an 8 x 8 matrix of stmatrix covers eight columns of one group.
        static_assert(HEIGHT * CONSUMERS * 2 * N * PITCH <= STAGES * STAGE_BYTES, "C's tile, or a block's part of it, fits into the stages");
        const unsigned own = stages + place * (2 * N * PITCH);
        meet_before_staging();
#pragma unroll
        for (int j = 0; j < GROUPS; j += 2) {
            // Each lane passes to stmatrix the address of row lane % 8 of matrix lane / 8.
            const unsigned to = own + (8 * (j + lane / 16) + lane % 8) * PITCH + (16 * warp + lane / 8 % 2 * 8) * 2;
            if (j + 1 < GROUPS) {
                asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(two(4 * j)), "r"(two(4 * j + 2)),
                             "r"(two(4 * j + 4)), "r"(two(4 * j + 6)) : "memory");
            } else {
                asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(to), "r"(two(4 * j)), "r"(two(4 * j + 2)) : "memory");
            }
        }
        warpgroup_sync(2 + place);
        write_lines<2 * N, 64, PITCH, WARPGROUP>(own, c, m, n, ldc, row, column);
        return;
    }
#pragma unroll
    for (int i = 0; i < N; i += 2) {
        unsigned word;
        asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(word) : "r"(two(i)));
        const unsigned r = row + i / 4 * 8 + lane / 4, at = first + i / 2 % 2 * 8 + lane % 4 * 2;
        if (r >= m || at >= n) continue;
        Out* const to = c + (size_t)r * ldc + at;
        if (quick) {
            *reinterpret_cast<unsigned*>(to) = word;
        } else {
            to[0] = Out{(unsigned short)word};
            if (at + 1 < n) to[1] = Out{(unsigned short)(word >> 16)};
        }
    }
}

// Stores a warpgroup's sums, or the `part` of them for which the block is responsible. The tile is at (row, column), and the warpgroup's 64
// rows, or columns if the product is computed transposed, are number `place` in the tile.
template <int N>
__device__ __forceinline__ void store_tile(const float (&d)[N], unsigned stages, Out* __restrict__ c /* [m][ldc] */, unsigned m, unsigned n,
                                           unsigned ldc, unsigned row, unsigned column, int place, unsigned part, const Epilogue& epilogue) {
    if constexpr (SWAPPED) store_swapped(d, stages, place, c, m, n, ldc, row + part * 2 * N, column + place * 64, epilogue);
    else store_part(d, stages, place, c, m, n, ldc, row + place * 64, column + part * 2 * N, epilogue);
}
