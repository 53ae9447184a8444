// Code of the persistent kernels that store C through shared memory: sums go there in whole rows, and from there to C by TMA, or by
// warps if C's rows or its edge are not at multiples of 16 bytes.
#pragma once
#include "matmul/persistent.cuh"

constexpr int CHUNK_COLUMNS = ROW_BYTES / sizeof(Out), CHUNKS = BN / CHUNK_COLUMNS;
static_assert(BN % CHUNK_COLUMNS == 0, "chunks are whole");
static_assert(DYNAMIC_SHARED_BYTES >= STAGES * STAGE_BYTES + CONSUMERS * 2 * CHUNK_BYTES + 1024, "two chunks for each consumer");

// Applies the epilogue to one of a warpgroup's sums: element i (0 or 1) of pair j in the upper (h = 0) or lower (h = 1) eight rows.
template <bool PLAIN>
__device__ __forceinline__ float epilogue_of(const Sums& sums, int j, int h, int i, const Epilogue& epilogue, const Out* c, unsigned row,
                                          unsigned column, unsigned m, unsigned n, unsigned ldc) {
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    const unsigned r = row + 16 * warp + lane / 4 + 8 * h, at = column + 8 * j + lane % 4 * 2 + i;
    const float sum = sums.d[4 * j + 2 * h + i];
    // A column past the edge of C uses the bias of the last column, since the result is not stored.
    if (PLAIN) return epilogue.plain(sum, Epilogue::HAS_BIAS ? min(at, n - 1) : at);
    return epilogue.guarded(sum, c, r, at, m, n, ldc);
}

// The address that this lane passes to stmatrix, in a buffer at a multiple of 1024 bytes: row l % 8 of matrix l / 8 for lane l. The matrices are
// rows 0 to 7 and 8 to 15 of the warp's first 16-byte piece, then of the next piece. The layout is TMA's swizzle; piece p of the row
// is at `lane_in(buffer) ^ p * 16`.
__device__ __forceinline__ unsigned lane_in(unsigned buffer) {
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4, r = 16 * warp + (lane & 8) + lane % 8;
    return buffer + r * ROW_BYTES + ((lane / 16) ^ (lane % 8)) * 16;
}

// Writes the columns of a chunk, from CHUNK_COLUMNS * chunk on, into 64 rows of 128 bytes.
template <bool PLAIN>
__device__ __forceinline__ void write(unsigned to, const Sums& sums, int chunk, const Epilogue& epilogue, const Out* c, unsigned row,
                                      unsigned column, unsigned m, unsigned n, unsigned ldc) {
    const auto value = [&](int j, int h, int i) { return epilogue_of<PLAIN>(sums, j, h, i, epilogue, c, row, column, m, n, ldc); };
    if constexpr (sizeof(Out) == 2) {
        const auto word = [&](int j, int h) { return pack(Out{}, value(j, h, 0), value(j, h, 1)); };
#pragma unroll
        for (int p = 0; p < 8; p += 2) {
            const int j = chunk * 8 + p;
            write_pieces(lane_in(to) ^ p * 16, word(j, 0), word(j, 1), word(j + 1, 0), word(j + 1, 1));
        }
    } else {
        const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
#pragma unroll
        for (int p = 0; p < 4; ++p) {
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                const int j = chunk * 4 + p;
                const unsigned r = 16 * warp + lane / 4 + 8 * h, piece = (2 * p + lane % 4 / 2) ^ (r % 8);
                asm volatile("st.shared.v2.f32 [%0], {%1, %2};"
                             ::"r"(to + r * ROW_BYTES + piece * 16 + lane % 2 * 8), "f"(value(j, h, 0)), "f"(value(j, h, 1)) : "memory");
            }
        }
    }
}

// Writes a chunk; whether the epilogue is plain is known only at run time.
__device__ __forceinline__ void write(unsigned to, const Sums& sums, int chunk, const Epilogue& epilogue, bool plain, const Out* c, unsigned row,
                                      unsigned column, unsigned m, unsigned n, unsigned ldc) {
    if (plain) write<true>(to, sums, chunk, epilogue, c, row, column, m, n, ldc);
    else write<false>(to, sums, chunk, epilogue, c, row, column, m, n, ldc);
}

// Returns the bits of one element of a chunk in shared memory.
__device__ __forceinline__ unsigned read_chunk(unsigned from, unsigned r, unsigned i) {
    const unsigned byte = i * sizeof(Out), at = from + r * ROW_BYTES + ((byte / 16 ^ r % 8) * 16) + byte % 16;
    unsigned bits;
    if constexpr (sizeof(Out) == 2) asm volatile("ld.shared.u16 %0, [%1];" : "=r"(bits) : "r"(at) : "memory");
    else asm volatile("ld.shared.u32 %0, [%1];" : "=r"(bits) : "r"(at) : "memory");
    return bits;
}

// Stores a chunk if TMA cannot store it: one warp per row, in 4-byte words.
__device__ __forceinline__ void copy_rows(Out* __restrict__ c /* [m][ldc] */, unsigned from, unsigned row, unsigned column, unsigned m,
                                          unsigned n, unsigned ldc) {
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    if (column >= n) return;
    const unsigned columns = min((unsigned)CHUNK_COLUMNS, n - column);
#pragma unroll 4
    for (unsigned r = warp; r < 64; r += 4) {
        if (row + r >= m) break;
        const size_t to = (size_t)(c + (size_t)(row + r) * ldc + column);
        unsigned* words = reinterpret_cast<unsigned*>(to);
        if constexpr (sizeof(Out) == 4) {
            if (lane < columns) words[lane] = read_chunk(from, r, lane);
        } else {
            // If a row starts in the middle of a word, its first and its last element are stored separately.
            unsigned short* halves = reinterpret_cast<unsigned short*>(to);
            const unsigned odd = to / 2 % 2, first = 2 * lane + odd;
            if (first + 1 < columns) {
                *reinterpret_cast<unsigned*>(halves + first) = read_chunk(from, r, first) | read_chunk(from, r, first + 1) << 16;
            } else if (first < columns) {
                halves[first] = read_chunk(from, r, first);
            }
            if (odd && lane == 31) halves[0] = read_chunk(from, r, 0);
        }
    }
}

// A tile of 16-bit elements that waits to be stored. It needs half as many registers as its sums.
struct Packed {
    unsigned words[BN / 4];  // [2 j + h]

    __device__ __forceinline__ void take(const Sums& sums, const Epilogue& epilogue, unsigned column, unsigned n) {
        take([&](int j, int h, int i) { return epilogue_of<true>(sums, j, h, i, epilogue, nullptr, 0, column, 0, n, 0); });
    }

    // Packs value(j, h, i): element i (0 or 1) of pair j in the upper (h = 0) or lower (h = 1) eight rows.
    template <class Value> __device__ __forceinline__ void take(Value value) {
#pragma unroll
        for (int w = 0; w < BN / 4; ++w) words[w] = pack(Out{}, value(w / 2, w % 2, 0), value(w / 2, w % 2, 1));
    }

    // Writes the columns of a chunk, from CHUNK_COLUMNS * chunk on, into 64 rows of 128 bytes.
    __device__ __forceinline__ void write(unsigned lane_at, int chunk) const {
#pragma unroll
        for (int p = 0; p < 8; p += 2) {
            const int i = (chunk * 8 + p) * 2;
            write_pieces(lane_at ^ p * 16, words[i], words[i + 1], words[i + 2], words[i + 3]);
        }
    }
};

// The position of a packed tile in one register: row / 64 in the upper half, column / 64 in the lower half.
constexpr unsigned NO_TILE = ~0u;
__device__ __forceinline__ unsigned packed_position(unsigned row, unsigned column) { return row / 64 * 65536 + column / 64; }

// Stores a chunk through one of a warpgroup's two buffers of 64 rows of 128 bytes: `fill` writes the chunk there, and TMA stores it to
// C at (row, column), or the warps do so if C's rows are not suitable for TMA.
template <bool BY_COPY, class Fill>
__device__ __forceinline__ void send(const TensorMap* map, Out* c, unsigned buffer, int barrier, unsigned row, unsigned column, unsigned m,
                                     unsigned n, unsigned ldc, Fill fill) {
    // The buffers alternate. If the number of chunks is odd, the last chunk of a tile and the first chunk of the next tile share a buffer.
    send_through<CHUNKS % 2 == 0 ? 1 : 0>(
        BY_COPY, barrier, [&] { fill(buffer); }, [&] { store_box(map, buffer, column, row); },
        [&] { copy_rows(c, buffer, row, column, m, n, ldc); });
}

// Stores a chunk of a packed tile by TMA. `lane_at` is lane_in(buffers).
__device__ __forceinline__ void store_packed(const Packed& packed, unsigned position, int chunk, const TensorMap* map, Out* c,
                                             unsigned buffers, unsigned lane_at, int barrier, unsigned m, unsigned n, unsigned ldc) {
    const int offset = chunk % 2 * CHUNK_BYTES;
    send<true>(map, c, buffers + offset, barrier, position / 65536 * 64, position % 65536 * 64 + chunk * CHUNK_COLUMNS, m, n, ldc,
               [&](unsigned) { packed.write(lane_at + offset, chunk); });
}
