// Idea: a product with few tiles and a long k leaves SMs idle, so the blocks of a cluster split the k of one tile.
// Formula: C = f(alpha op(A) op(B) + beta C); f16, bf16 or tf32 in, f32 sums; row-major, one tile of BM x BN per cluster.
// Since the last rung: SPLIT blocks sum a part of k each, exchange the partial sums of BN / SPLIT columns and add in a fixed order.
// Needs: the same as 11_wgmma_tma; SPLIT * CLUSTER at most 8; shared memory for the other blocks' partial sums next to the stages.
// Expect: thin shapes read A and B with all SMs; large ones lose, as most partial sums cross the cluster. SPLIT = 1: small tiles.
#include "matmul/persistent.cuh"

constexpr int CONSUMER_THREADS = CONSUMERS * WARPGROUP;
constexpr int PART = WIDTH / 2 / SPLIT;                  // Sums of a thread for which one block is responsible,
constexpr int SENT_BYTES = CONSUMER_THREADS * PART * 4;  // and of all its threads: what a block sends to another.
static_assert(WIDTH / 8 % SPLIT == 0, "a block is responsible for whole groups of eight columns, or swapped of eight rows");
static_assert(!SWAPPED || sizeof(Out) == 2, "a warp transposes 16-bit elements");
static_assert(DYNAMIC_SHARED_BYTES >= STAGES * STAGE_BYTES + BM * BN / SPLIT * (SPLIT - 1) * 4 + 1024, "room for the other blocks' partial sums");
static_assert(SPLIT == 1 || HEIGHT == 1, "each sum of a thread has one block that is responsible for it");
static_assert(SPLIT * CLUSTER <= 8, "larger clusters are not on every chip");

__device__ __forceinline__ unsigned in_block(unsigned address, unsigned rank) {
    unsigned theirs;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(theirs) : "r"(address), "r"(rank));
    return theirs;
}
__device__ __forceinline__ float4 load_shared(unsigned address) {
    float4 v;
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "r"(address) : "memory");
    return v;
}

// The stages have been read once all consumers are here; then C's tile may lie there.
__device__ __forceinline__ void meet_before_staging() { asm volatile("bar.sync 1, %0;" ::"n"(CONSUMER_THREADS) : "memory"); }
constexpr int PIECE = 16 / sizeof(Out);  // Elements that a thread writes at once.
__device__ __forceinline__ bool in_pieces(const Out* c, unsigned n, unsigned ldc) {
    return n % PIECE == 0 && ldc % PIECE == 0 && (size_t)c % 16 == 0;
}
// Writes ROWS x COLUMNS elements that lie in shared memory, in rows of PITCH bytes, to C at (row, column) with THREADS_OF threads.
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

// Applies the epilogue to a warpgroup's sums and stores them: 64 rows from `row` on, 2 N columns from `column` on. `place` counts the 64
// rows of the tile; where rows are long enough each warp writes its 16 as whole lines, by way of the stages.
template <int N>
__device__ __forceinline__ void store_part(const float (&d)[N], unsigned stages, int place, Out* __restrict__ c /* [m][ldc] */, unsigned m, unsigned n,
                                           unsigned ldc, unsigned row, unsigned column, const Epilogue& epilogue) {
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    const bool quick = epilogue.is_plain() && Epilogue::in_pairs(c, n, ldc);
    // Past the edge any bias may be read: it takes that of the last columns.
    const auto pair = [&](int i, float (&both)[2]) {
        const unsigned at = min(column + i / 4 * 8 + lane % 4 * 2, n - 2);
        both[0] = epilogue.plain(d[i], at), both[1] = epilogue.plain(d[i + 1], at + 1);
    };
    // 16-bit sums of a whole k are stored as chunks of 16 bytes without waiting for the other warpgroups.
    if constexpr (N >= 32 && (SPLIT > 1 || sizeof(Out) == 4)) {
        if (quick && in_pieces(c, n, ldc)) {
            // Eight rows lie in different banks.
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
                    // A lane passes the address of row lane % 8 of matrix lane / 8.
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

// The same of sums that are swapped: 2 N rows from `row` on, 64 columns from `column` on. A lane holds two rows of a column: stmatrix
// transposes them on the way to shared memory, or movmatrix across the warp where C has no pieces of 16 bytes.
template <int N>
__device__ __forceinline__ void store_swapped(const float (&d)[N], unsigned stages, int place, Out* __restrict__ c /* [m][ldc] */, unsigned m,
                                              unsigned n, unsigned ldc, unsigned row, unsigned column, const Epilogue& epilogue) {
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4, first = column + warp * 16;
    const bool plain = epilogue.is_plain(), quick = Epilogue::in_pairs(c, n, ldc);
    // The rows i and i + 1 of a column. Past the edge any bias may be read: it takes that of the last column.
    const auto two = [&](int i) {
        const unsigned at = first + lane / 4 + i / 2 % 2 * 8, r = row + i / 4 * 8 + lane % 4 * 2;
        const auto value = [&](int e) {
            return plain ? epilogue.plain(d[i + e], min(at, n - 1)) : epilogue.guarded(d[i + e], c, r + e, at, m, n, ldc);
        };
        return pack(Out{}, value(0), value(1));
    };
    if (in_pieces(c, n, ldc)) {
        constexpr unsigned PITCH = 64 * 2 + 16;  // Eight rows lie in different banks.
        constexpr int GROUPS = N / 4;            // Of eight rows, which a matrix of stmatrix holds for eight columns.
        static_assert(HEIGHT * CONSUMERS * 2 * N * PITCH <= STAGES * STAGE_BYTES, "C's tile, or a block's part of it, fits into the stages");
        const unsigned own = stages + place * (2 * N * PITCH);
        meet_before_staging();
#pragma unroll
        for (int j = 0; j < GROUPS; j += 2) {
            // A lane passes the address of row lane % 8 of matrix lane / 8.
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

// Stores the sums, or a part of them, of a warpgroup: those of its 64 rows or columns of the tile at (row, column), the `place`-th of the tile.
template <int N>
__device__ __forceinline__ void store_tile(const float (&d)[N], unsigned stages, Out* __restrict__ c /* [m][ldc] */, unsigned m, unsigned n,
                                           unsigned ldc, unsigned row, unsigned column, int place, unsigned part, const Epilogue& epilogue) {
    if constexpr (SWAPPED) store_swapped(d, stages, place, c, m, n, ldc, row + part * 2 * N, column + place * 64, epilogue);
    else store_part(d, stages, place, c, m, n, ldc, row + place * 64, column + part * 2 * N, epilogue);
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
gemm(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b, Out* __restrict__ c /* [gridDim.y][m][ldc] */,
     unsigned m, unsigned n, unsigned k, unsigned ldc, Epilogue epilogue) {
    MARK_BEGIN(gemm);
    __shared__ __align__(8) unsigned long long full_barriers[STAGES], empty_barriers[STAGES], received;
    // A cluster has CLUSTER adjacent tiles, which share what they load, and SPLIT blocks for each: those of one part of k follow each other.
    const unsigned in_cluster = SPLIT * CLUSTER > 1 ? cluster_rank() : 0, rank = in_cluster / CLUSTER, place = in_cluster % CLUSTER;
    const unsigned base = aligned_shared(), k_blocks = (k + BK - 1) / BK;
    unsigned row, column;
    // The SMs of a GPC that read the same lines at the same time read them from L2 once: with a long row of tiles, those of a few rows.
    Tiles tiles(m, n, 1);
    if (tiles.columns >= 16 && k_blocks >= 30) tiles.group = 4;
    tiles.at(blockIdx.x / (SPLIT * CLUSTER), place, row, column);
    // A grid of several blocks in y splits k once more, and each y has a matrix of partial sums for itself.
    const unsigned parts = SPLIT * gridDim.y, part_of_k = blockIdx.y * SPLIT + rank;
    c += (size_t)blockIdx.y * m * ldc;
    // The first parts have one more where it does not divide evenly.
    const unsigned share = k_blocks / parts, more = k_blocks % parts;
    const unsigned begin = part_of_k * share + min(part_of_k, more), end = begin + share + (part_of_k < more ? 1 : 0);
    const int group = warpgroup_index();
    if (threadIdx.x == 0) {
        prefetch(&map_a), prefetch(&map_b);
        if (SPLIT > 1) barrier_init(&received, 1), barrier_arrive_and_expect(&received, (SPLIT - 1) * SENT_BYTES);
    }
    Barriers barriers(full_barriers, empty_barriers);
    barriers.first_rank = rank * CLUSTER;
    // Where no tiles are shared, the other blocks' barriers must be ready only before the partial sums are sent.
    constexpr bool MEETS_LATER = SPLIT > 1 && CLUSTER == 1;
    if (MEETS_LATER) cluster_arrive();
    Ring ring;

    if (group == CONSUMERS) {
        give_registers<PRODUCER_REGISTERS>();
        barriers.meet();
        if (threadIdx.x % WARPGROUP == 0) {
            wait_for_predecessor();
            // With a single row of tiles every part of B is read once.
            barriers.fill(ring, base, &map_a, &map_b, row, column, begin, end, place, m <= BM);
            let_successor_start();
            barriers.drain(ring);
        }
        __syncwarp();
        if (MEETS_LATER) cluster_wait();
    } else {
        take_registers<CONSUMER_REGISTERS>();
        barriers.meet();
        const int own_rows = group * HEIGHT * CHUNK_BYTES;
        const unsigned a = descriptor(base + (SWAPPED ? 0 : own_rows), !TRANS_A);
        const unsigned b = descriptor(base + A_BYTES + (SWAPPED ? own_rows : 0), TRANS_B);
        const unsigned first = SWAPPED ? b : a, second = SWAPPED ? a : b;
        Sums sums;
        if (end > begin) {
            barriers.multiply(ring, first, second, end - begin, sums);
        } else {
            // A short k may leave a block without a part.
#pragma unroll
            for (int i = 0; i < Sums::ALL; ++i) sums.d[i] = 0.0f;
        }
        MARK(store);
        if constexpr (SPLIT == 1) {
#pragma unroll
            for (int i = 0; i < HEIGHT; ++i) store_tile(sums.of(i), base, c, m, n, ldc, row, column, group * HEIGHT + i, 0, epilogue);
        } else {
            MARK(barrier);
            if (MEETS_LATER) cluster_wait();
            MARK(exchange);
            // A thread sends to the one that has its place in the other block, to a slot per sender behind the stages.
            const unsigned slots = base + STAGES * STAGE_BYTES + threadIdx.x * 16, signal = shared_address(&received);
            float own[PART];
#pragma unroll
            for (unsigned part = 0; part < SPLIT; ++part) {
                if (part == rank) {
#pragma unroll
                    for (int i = 0; i < PART; ++i) own[i] = sums.d[part * PART + i];
                } else {
                    const unsigned to = in_block(slots + (rank < part ? rank : rank - 1) * SENT_BYTES, part * CLUSTER + place);
                    const unsigned theirs = in_block(signal, part * CLUSTER + place);
#pragma unroll
                    for (int i = 0; i < PART; i += 4) {
                        const float* from = &sums.d[part * PART + i];
                        store_and_signal(to + i * 4 * CONSUMER_THREADS, make_float4(from[0], from[1], from[2], from[3]), theirs);
                    }
                }
            }
            // Every block waits for all that is sent to it, so that none sends to a block that has exited.
            MARK(barrier);
            barrier_wait(&received, 0);
            MARK(store);
#pragma unroll
            for (int s = 0; s < SPLIT - 1; ++s) {
#pragma unroll
                for (int i = 0; i < PART; i += 4) {
                    const float4 v = load_shared(slots + s * SENT_BYTES + i * 4 * CONSUMER_THREADS);
                    own[i] += v.x, own[i + 1] += v.y, own[i + 2] += v.z, own[i + 3] += v.w;
                }
            }
            store_tile(own, base, c, m, n, ldc, row, column, group, rank, epilogue);
        }
    }
    MARK(end);
}
