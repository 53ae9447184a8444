// Idea: TMA can also store: sums go to shared memory in whole rows, and from there to global memory while the next tile starts.
// Formula: C = f(alpha op(A) op(B) + beta C); f16, bf16 or tf32 in, f32 sums; row-major, tiles of BM x BN.
// Since the last rung: stmatrix and TMA stores of 64 rows of 128 bytes, two in flight, instead of 4-byte stores from registers.
// Needs: the same as 11_wgmma_tma; where C's rows or its edge are not at multiples of 16 bytes, warps store from shared memory.
// Expect: full-line stores; the tensor cores idle only while sums are written to shared memory.
#include "matmul/persistent.cuh"

constexpr int CHUNK_COLUMNS = ROW_BYTES / sizeof(Out), CHUNKS = BN / CHUNK_COLUMNS;
static_assert(BN % CHUNK_COLUMNS == 0, "chunks are whole");
static_assert(DYNAMIC_SHARED_BYTES >= STAGES * STAGE_BYTES + CONSUMERS * 2 * CHUNK_BYTES + 1024, "two chunks for each consumer");

// The epilogue of one of a warpgroup's sums: element i (0 or 1) of pair j in the upper (h = 0) or lower (h = 1) eight rows.
template <bool PLAIN>
__device__ __forceinline__ float epilogue_of(const Sums& sums, int j, int h, int i, const Epilogue& epilogue, const Out* c, unsigned row,
                                          unsigned column, unsigned m, unsigned n, unsigned ldc) {
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    const unsigned r = row + 16 * warp + lane / 4 + 8 * h, at = column + 8 * j + lane % 4 * 2 + i;
    const float sum = sums.d[4 * j + 2 * h + i];
    // Past the edge any bias may be read: it takes that of the last column.
    if (PLAIN) return epilogue.plain(sum, Epilogue::HAS_BIAS ? min(at, n - 1) : at);
    return epilogue.guarded(sum, c, r, at, m, n, ldc);
}

// The address that this lane passes to stmatrix, in a buffer at a multiple of 1024 bytes: row l % 8 of matrix l / 8. The matrices are
// rows 0 to 7 and 8 to 15 of the warp's first 16-byte piece, and of the next one. Swizzled as TMA reads it; piece p of the row is at
// `lane_in(buffer) ^ p * 16`.
__device__ __forceinline__ unsigned lane_in(unsigned buffer) {
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4, r = 16 * warp + (lane & 8) + lane % 8;
    return buffer + r * ROW_BYTES + ((lane / 16) ^ (lane % 8)) * 16;
}
__device__ __forceinline__ void write_pieces(unsigned at, unsigned a, unsigned b, unsigned c, unsigned d) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}

// A tile of 16-bit elements to be stored: half the registers of its sums, so that it can wait while the next tile starts.
struct Packed {
    unsigned words[BN / 4];  // [2 j + h]

    __device__ __forceinline__ void take(const Sums& sums, const Epilogue& epilogue, unsigned column, unsigned n) {
#pragma unroll
        for (int i = 0; i < BN / 4; ++i) {
            const auto value = [&](int k) { return epilogue_of<true>(sums, i / 2, i % 2, k, epilogue, nullptr, 0, column, 0, n, 0); };
            words[i] = pack(Out{}, value(0), value(1));
        }
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

// The same directly from the sums.
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

// The bits of one element of a chunk in shared memory.
__device__ __forceinline__ unsigned read_chunk(unsigned from, unsigned r, unsigned i) {
    const unsigned byte = i * sizeof(Out), at = from + r * ROW_BYTES + ((byte / 16 ^ r % 8) * 16) + byte % 16;
    unsigned bits;
    if constexpr (sizeof(Out) == 2) asm volatile("ld.shared.u16 %0, [%1];" : "=r"(bits) : "r"(at) : "memory");
    else asm volatile("ld.shared.u32 %0, [%1];" : "=r"(bits) : "r"(at) : "memory");
    return bits;
}

// Stores a chunk where TMA cannot: one warp per row, in 4-byte words.
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
            // A row may start in the middle of a word: then its first and its last element are stored alone.
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

// Stores a chunk through one of a warpgroup's two buffers of 64 rows of 128 bytes: `fill` writes it there, and it is stored to C at
// (row, column) by TMA, or by the warps where C's rows do not allow that.
template <bool BY_COPY, class Fill>
__device__ __forceinline__ void send(const TensorMap* map, Out* c, unsigned buffer, int id, unsigned row, unsigned column, unsigned m,
                                     unsigned n, unsigned ldc, Fill fill) {
    MARK(store);
    const bool leader = threadIdx.x % WARPGROUP == 0;
    // The store before the last used this buffer, or the last one where a tile has an odd number of chunks: wait until it has been read.
    if (BY_COPY && leader) store_wait_read<CHUNKS % 2 == 0 ? 1 : 0>();
    warpgroup_sync(id);
    fill(buffer);
    if (BY_COPY) fence_for_copies();
    warpgroup_sync(id);
    if (BY_COPY) {
        if (leader) store_box(map, buffer, column, row), store_commit();
    } else {
        copy_rows(c, buffer, row, column, m, n, ldc);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
gemm(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b, const __grid_constant__ TensorMap map_c,
     unsigned by_copy /* 1: map_c describes C, whose rows and edge are at multiples of 16 bytes */, Out* __restrict__ c /* [m][ldc] */,
     unsigned m, unsigned n, unsigned k, unsigned ldc, Epilogue epilogue) {
    MARK_BEGIN(gemm);
    __shared__ __align__(8) unsigned long long full_barriers[STAGES], empty_barriers[STAGES];
    const unsigned base = aligned_shared(), rank = rank_in_cluster(), k_blocks = (k + BK - 1) / BK;
    const int group = warpgroup_index();
    const Tiles tiles(m, n);
    if (threadIdx.x == 0) prefetch(&map_a), prefetch(&map_b);
    const Barriers barriers(full_barriers, empty_barriers);
    unsigned row, column;
    Ring ring;
    let_successor_start();

    if (group == CONSUMERS) {
        give_registers<PRODUCER_REGISTERS>();
        // The consumers' stores follow these loads, so this wait covers them too.
        wait_for_predecessor();
        barriers.meet();
        if (threadIdx.x % WARPGROUP == 0) {
            for (unsigned tile = blockIdx.x / CLUSTER; tile < tiles.count(); tile += gridDim.x / CLUSTER) {
                tiles.at(tile, rank, row, column);
                barriers.fill(ring, base, &map_a, &map_b, row, column, 0, k_blocks, rank);
            }
            barriers.drain(ring);
            MARK(end);
        }
    } else {
        take_registers<CONSUMER_REGISTERS>();
        barriers.meet();
        const unsigned a = descriptor(base + group * CHUNK_BYTES, !TRANS_A), b = descriptor(base + A_BYTES, TRANS_B);
        const unsigned buffers = base + STAGES * STAGE_BYTES + group * 2 * CHUNK_BYTES;
        const bool plain = epilogue.is_plain();
        Sums sums;
        // An epilogue that reads C or a mask leaves no registers for a waiting tile.
        if (sizeof(Out) == 2 && by_copy && plain) {
            if constexpr (sizeof(Out) == 2) {
                Packed packed;
                // The position of the waiting tile in one register: row / 64 in the upper half, column / 64 in the lower.
                constexpr unsigned NONE = ~0u;
                unsigned waiting = NONE;
                const unsigned lane_at = lane_in(buffers);
                const auto store_waiting = [&](int chunk) {
                    const int offset = chunk % 2 * CHUNK_BYTES;
                    send<true>(&map_c, c, buffers + offset, 1 + group, waiting / 65536 * 64, waiting % 65536 * 64 + chunk * CHUNK_COLUMNS,
                               m, n, ldc, [&](unsigned) { packed.write(lane_at + offset, chunk); });
                };
                for (unsigned tile = blockIdx.x / CLUSTER; tile < tiles.count(); tile += gridDim.x / CLUSTER) {
                    // While the first stages are multiplied, the previous tile is stored, one chunk per stage.
                    barriers.multiply_and<CHUNKS>(ring, a, b, k_blocks, sums, [&](int chunk) {
                        if (waiting != NONE) store_waiting(chunk);
                    });
                    tiles.at(tile, rank, row, column);
                    row += group * 64, waiting = row / 64 * 65536 + column / 64;
                    MARK(store);
                    packed.take(sums, epilogue, column, n);
                }
                if (waiting != NONE) {
#pragma unroll
                    for (int chunk = 0; chunk < CHUNKS; ++chunk) store_waiting(chunk);
                }
            }
        } else {
            for (unsigned tile = blockIdx.x / CLUSTER; tile < tiles.count(); tile += gridDim.x / CLUSTER) {
                tiles.at(tile, rank, row, column);
                row += group * 64;
                barriers.multiply(ring, a, b, k_blocks, sums);
#pragma unroll
                for (int chunk = 0; chunk < CHUNKS; ++chunk) {
                    const auto fill = [&](unsigned to) {
                        if (plain) write<true>(to, sums, chunk, epilogue, c, row, column, m, n, ldc);
                        else write<false>(to, sums, chunk, epilogue, c, row, column, m, n, ldc);
                    };
                    const unsigned buffer = buffers + chunk % 2 * CHUNK_BYTES, from = column + chunk * CHUNK_COLUMNS;
                    if (by_copy) send<true>(&map_c, c, buffer, 1 + group, row, from, m, n, ldc, fill);
                    else send<false>(&map_c, c, buffer, 1 + group, row, from, m, n, ldc, fill);
                }
            }
        }
        // Shared memory must stay allocated until the last stores have read it.
        if (threadIdx.x % WARPGROUP == 0) store_wait_read<0>();
        MARK(end);
    }
}
