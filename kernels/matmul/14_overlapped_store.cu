// Idea: the copy engine can also write: sums go to shared memory in whole rows, and from there to memory while the next tile begins.
// Formula: C = f(alpha op(A) op(B) + beta C); f16, bf16 or tf32 in, f32 sums; row-major, tiles of BM x BN.
// Since the last rung: stores of 4 bytes from registers became stmatrix and TMA, 64 rows of 128 bytes at a time, two under way.
// Needs: as 11_wgmma_tma; where C's rows or its edge are at no multiple of 16 bytes, warps write them from shared memory.
// Expect: whole lines are written, and the tensor cores wait only for the way to shared memory.
#include "matmul/persistent.cuh"

constexpr int CHUNK_COLUMNS = ROW_BYTES / sizeof(Out), CHUNKS = BN / CHUNK_COLUMNS;
static_assert(BN % CHUNK_COLUMNS == 0, "chunks are whole");
static_assert(DYNAMIC_SHARED_BYTES >= STAGES * STAGE_BYTES + CONSUMERS * 2 * CHUNK_BYTES + 1024, "two chunks for each consumer");

// What becomes of an element of a warpgroup's sums: i = 0 or 1 of the pair j in the upper (h = 0) or lower eight rows.
template <bool PLAIN>
__device__ __forceinline__ float finished(const Sums& sums, int j, int h, int i, const Finish& finish, const Out* c, unsigned row,
                                          unsigned column, unsigned m, unsigned n, unsigned ldc) {
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    const unsigned r = row + 16 * warp + lane / 4 + 8 * h, at = column + 8 * j + lane % 4 * 2 + i;
    const float sum = sums.d[4 * j + 2 * h + i];
    // Past the edge the last column's bias will do.
    if (PLAIN) return finish.plain(sum, FINISH == FINISH_NONE ? at : min(at, n - 1));
    return finish.guarded(sum, c, r, at, m, n, ldc);
}

// Where this lane points stmatrix in a buffer that begins at a multiple of 1024: to row l % 8 of piece l / 8, which are rows 0 to 7 and
// 8 to 15 of a warp's first 16 bytes, and of the next. Swizzled as TMA reads them; piece p of the row is at `lane_in(buffer) ^ p * 16`.
__device__ __forceinline__ unsigned lane_in(unsigned buffer) {
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4, r = 16 * warp + (lane & 8) + lane % 8;
    return buffer + r * ROW_BYTES + ((lane / 16) ^ (lane % 8)) * 16;
}
__device__ __forceinline__ void write_pieces(unsigned at, unsigned a, unsigned b, unsigned c, unsigned d) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}

// A tile of 16-bit numbers on its way out: half the registers of its sums, so that it can wait while the next tile begins.
struct Packed {
    unsigned words[BN / 4];  // [2 j + h]

    __device__ __forceinline__ void take(const Sums& sums, const Finish& finish, unsigned column, unsigned n) {
#pragma unroll
        for (int i = 0; i < BN / 4; ++i) {
            const auto value = [&](int k) { return finished<true>(sums, i / 2, i % 2, k, finish, nullptr, 0, column, 0, n, 0); };
            words[i] = pack(Out{}, value(0), value(1));
        }
    }

    // Writes columns from CHUNK_COLUMNS * chunk on into 64 rows of 128 bytes.
    __device__ __forceinline__ void write(unsigned lane_at, int chunk) const {
#pragma unroll
        for (int p = 0; p < 8; p += 2) {
            const int i = (chunk * 8 + p) * 2;
            write_pieces(lane_at ^ p * 16, words[i], words[i + 1], words[i + 2], words[i + 3]);
        }
    }
};

// The same straight from the sums.
template <bool PLAIN>
__device__ __forceinline__ void write(unsigned to, const Sums& sums, int chunk, const Finish& finish, const Out* c, unsigned row,
                                      unsigned column, unsigned m, unsigned n, unsigned ldc) {
    const auto value = [&](int j, int h, int i) { return finished<PLAIN>(sums, j, h, i, finish, c, row, column, m, n, ldc); };
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

// The bits of one element of such a chunk.
__device__ __forceinline__ unsigned read_chunk(unsigned from, unsigned r, unsigned i) {
    const unsigned byte = i * sizeof(Out), at = from + r * ROW_BYTES + ((byte / 16 ^ r % 8) * 16) + byte % 16;
    unsigned bits;
    if constexpr (sizeof(Out) == 2) asm volatile("ld.shared.u16 %0, [%1];" : "=r"(bits) : "r"(at) : "memory");
    else asm volatile("ld.shared.u32 %0, [%1];" : "=r"(bits) : "r"(at) : "memory");
    return bits;
}

// Where TMA cannot: a warp a row, in words of four bytes.
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
            // A row may begin in the middle of a word: then its first and its last element go alone.
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

// A turn of one of a warpgroup's two buffers of 64 rows of 128 bytes: `fill` writes a chunk of a tile there, and it goes to C from
// (row, column) on; by TMA, or where C's rows do not allow that, by the warps.
template <bool BY_COPY, class Fill>
__device__ __forceinline__ void send(const TensorMap* map, Out* c, unsigned buffer, int id, unsigned row, unsigned column, unsigned m,
                                     unsigned n, unsigned ldc, Fill fill) {
    const bool leader = threadIdx.x % WARPGROUP == 0;
    // The store before the last has been read: its buffer is this one.
    if (BY_COPY && leader) store_wait_read<1>();
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
     unsigned by_copy /* 1: map_c describes C, whose rows and edge are at multiples of 16 bytes */, Out* __restrict__ c /* [m][ldc] */, unsigned m, unsigned n, unsigned k, unsigned ldc,
     Finish finish) {
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
        // What the consumers do comes after what is fetched here, so this wait is theirs too.
        wait_for_predecessor();
        barriers.meet();
        if (threadIdx.x % WARPGROUP == 0) {
            for (unsigned tile = blockIdx.x / CLUSTER; tile < tiles.count(); tile += gridDim.x / CLUSTER) {
                tiles.at(tile, rank, row, column);
                barriers.fill(ring, base, &map_a, &map_b, row, column, 0, k_blocks, rank);
            }
            barriers.drain(ring);
        }
    } else {
        take_registers<CONSUMER_REGISTERS>();
        barriers.meet();
        const unsigned a = descriptor(base + group * CHUNK_BYTES, !TRANS_A), b = descriptor(base + A_BYTES, TRANS_B);
        const unsigned buffers = base + STAGES * STAGE_BYTES + group * 2 * CHUNK_BYTES;
        const bool plain = finish.is_plain();
        Sums sums;
        // What reads C or a mask as well has no registers left for a tile that waits.
        if (sizeof(Out) == 2 && by_copy && plain) {
            if constexpr (sizeof(Out) == 2) {
                Packed packed;
                // Where the tile that waits belongs, in one register: row / 64 above column / 64.
                constexpr unsigned NONE = ~0u;
                unsigned waiting = NONE;
                const unsigned lane_at = lane_in(buffers);
                const auto go_out = [&](int chunk) {
                    const int offset = chunk % 2 * CHUNK_BYTES;
                    send<true>(&map_c, c, buffers + offset, 1 + group, waiting / 65536 * 64, waiting % 65536 * 64 + chunk * CHUNK_COLUMNS,
                               m, n, ldc, [&](unsigned) { packed.write(lane_at + offset, chunk); });
                };
                for (unsigned tile = blockIdx.x / CLUSTER; tile < tiles.count(); tile += gridDim.x / CLUSTER) {
                    // While the first stages are multiplied, the last tile goes out, a chunk a stage.
                    barriers.multiply_and<CHUNKS>(ring, a, b, k_blocks, sums, [&](int chunk) {
                        if (waiting != NONE) go_out(chunk);
                    });
                    tiles.at(tile, rank, row, column);
                    row += group * 64, waiting = row / 64 * 65536 + column / 64;
                    packed.take(sums, finish, column, n);
                }
                if (waiting != NONE) {
#pragma unroll
                    for (int chunk = 0; chunk < CHUNKS; ++chunk) go_out(chunk);
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
                        if (plain) write<true>(to, sums, chunk, finish, c, row, column, m, n, ldc);
                        else write<false>(to, sums, chunk, finish, c, row, column, m, n, ldc);
                    };
                    const unsigned buffer = buffers + chunk % 2 * CHUNK_BYTES, from = column + chunk * CHUNK_COLUMNS;
                    if (by_copy) send<true>(&map_c, c, buffer, 1 + group, row, from, m, n, ldc, fill);
                    else send<false>(&map_c, c, buffer, 1 + group, row, from, m, n, ldc, fill);
                }
            }
        }
        // The buffers are this block's until they have been read.
        if (threadIdx.x % WARPGROUP == 0) store_wait_read<0>();
    }
}
