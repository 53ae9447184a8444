// Idea: TMA cannot read rows that begin anywhere, and copying them first takes longer than a small product: shift them on the way.
// Formula: C = f(alpha op(A) op(B) + beta C); f16 or bf16 in, f32 sums; row-major, one tile of BM x BN per cluster of SPLIT blocks.
// Since the last rung: the mma.sync of 10 on tiles of 16-byte loads that are shifted in registers; SLICES x SPLIT groups share k.
// Needs: sm_90 for its clusters; any m, n, k and leading dimensions, at any address.
// Expect: odd sides save two copies, which pays where m, n or k is small; large products lose, as loads pass through registers and mma.sync is slow.
#include "cluster.cuh"
#include "launch.cuh"
#include "matmul/mma.cuh"

constexpr int GROUP_THREADS = THREADS / SLICES;  // A group of warps multiplies every (SLICES * SPLIT)-th block of BK.
constexpr int WARPS_N = BN / WN, STEPS = BK / K_STEP;
using TileA = Tile<BM, !TRANS_A>;
using TileB = Tile<BN, TRANS_B>;
constexpr int STAGE_BYTES = TileA::BYTES + TileB::BYTES, RING_BYTES = 2 * STAGE_BYTES;
constexpr int SUMS_STRIDE = BN + 8;  // Row length, padded so that the pairs of a quarter of a warp lie in different banks.
constexpr int SUMS_BYTES = BM * SUMS_STRIDE * 4;
// True if one group of one block has all sums of the tile and converts them in its registers.
constexpr bool ALONE = SLICES * SPLIT == 1;
// Length of a row of the staged tile: its elements of C after up to 7 unused elements (see store_staged).
constexpr int STAGED_STRIDE = BN + 8, STAGED_BYTES = BM * STAGED_STRIDE * 2;
constexpr int GROUPS_BYTES = ALONE ? 0 : SLICES * (RING_BYTES > SUMS_BYTES ? RING_BYTES : SUMS_BYTES);
// Memory behind that of the groups: sums from other blocks, or the staged tile, which reuses the ring's memory if there are no sums.
constexpr int BEHIND_BYTES = SPLIT > 1 ? BM * BN * 4 : ALONE && RING_BYTES > STAGED_BYTES ? RING_BYTES : STAGED_BYTES;
constexpr int ROWS = BM / SPLIT;  // Rows of the tile that one block of the cluster adds up and stores.
static_assert(sizeof(In) == 2, "the shifts are of 16-bit elements");
static_assert(BM % WM == 0 && BN % WN == 0 && GROUP_THREADS == BM / WM * WARPS_N * WARP, "a group's warps cover the tile");
static_assert(BK % K_STEP == 0 && BM % SPLIT == 0 && SLICES <= 8 && SPLIT <= 8, "named barriers and clusters are few");
static_assert(TileA::BYTES % 128 == 0 && TileB::BYTES % 128 == 0, "the swizzle needs tiles at multiples of 128 bytes");
static_assert(DYNAMIC_SHARED_BYTES >= GROUPS_BYTES + BEHIND_BYTES, "room for the tiles, then for the sums");
static_assert(BN % 8 == 0 && BN <= 128 && GROUPS_BYTES % 16 == 0, "at most 16 chunks of 16 bytes in a row");
static_assert(THREADS % 128 == 0, "all rows that a thread stores lie as far from a multiple of 16 bytes");

// A grid with several blocks in y splits k once more, and each y index writes its own f32 matrix of partial sums. If a single group
// multiplies a tile, no registers are left for this.
constexpr bool CAN_BE_A_PART = sizeof(Out) == 4 && !ALONE;
__device__ __forceinline__ int parts() { return CAN_BE_A_PART ? (int)gridDim.y : 1; }
__device__ __forceinline__ unsigned part() { return CAN_BE_A_PART ? blockIdx.y : 0; }

// Synchronises the threads of a group.
__device__ __forceinline__ void meet(unsigned group) {
    asm volatile("bar.sync %0, %1;" ::"r"(group + 1), "n"(GROUP_THREADS) : "memory");
}

// Loads a group's tiles of an operand: the aligned 16 bytes around the beginning of a chunk and the next 16, shifted when they are put
// into the tile. The rows that a thread loads are a multiple of 8 apart, so that all its chunks need the same shift.
template <int OUTER, bool ALONG_K>
struct Shifted {
    using To = Tile<OUTER, ALONG_K>;
    static constexpr int ROWS_AT_ONCE = GROUP_THREADS / To::CHUNKS, PIECES = To::ROWS / ROWS_AT_ONCE;
    static_assert(GROUP_THREADS % To::CHUNKS == 0 && To::ROWS % ROWS_AT_ONCE == 0, "every thread loads the same number of chunks");
    static_assert(ROWS_AT_ONCE % 8 == 0 && BK % 8 == 0, "all chunks of a thread are shifted alike");

    struct Loaded { uint4 first[PIECES], second[PIECES]; };

    const char *from, *begin, *end;  // start of the 16 bytes around the thread's first chunk; start and end of the matrix
    size_t pitch;                    // distance between rows in bytes
    int rows, columns;               // rows and columns of the operand, counted from the first chunk
    unsigned shift, to;              // elements before the chunk in its 16 bytes; the chunk's offset in the tile

    __device__ __forceinline__ Shifted(const In* matrix, unsigned outer, unsigned k, unsigned ld, unsigned first) {
        const unsigned thread = threadIdx.x % GROUP_THREADS, row = thread / To::CHUNKS, chunk = thread % To::CHUNKS;
        const unsigned first_row = row + (ALONG_K ? first : 0), first_column = chunk * VECTOR + (ALONG_K ? 0 : first);
        const unsigned height = ALONG_K ? outer : k, width = ALONG_K ? k : outer;
        const In* at = matrix + (size_t)first_row * ld + first_column;
        shift = (unsigned)((size_t)at / sizeof(In)) % VECTOR;
        from = reinterpret_cast<const char*>(at - shift);
        begin = reinterpret_cast<const char*>(matrix);
        end = reinterpret_cast<const char*>(matrix + (size_t)(height - 1) * ld + width);
        pitch = (size_t)ld * sizeof(In);
        rows = (int)height - (int)first_row, columns = (int)width - (int)first_column;
        to = To::offset(row, chunk);
    }

    // Returns how many elements of piece i of block `block` exist, counted from its first; none if the result is negative.
    __device__ __forceinline__ int left(int block, int i) const {
        if (ALONG_K) return rows > i * ROWS_AT_ONCE ? columns - block * BK : 0;
        return rows - block * BK > i * ROWS_AT_ONCE ? columns : 0;
    }

    __device__ __forceinline__ void load(Loaded& loaded, int block) const {
        const char* at = from + (ALONG_K ? (size_t)block * (BK * sizeof(In)) : (size_t)block * BK * pitch);
#pragma unroll
        for (int i = 0; i < PIECES; ++i, at += ROWS_AT_ONCE * pitch) {
            unsigned words[8] = {};
            const int exist = min(left(block, i), VECTOR);
            if (exist > 0) {
                const bool crosses = (int)shift + exist > VECTOR;
                if (at >= begin && at + (crosses ? 32 : 16) <= end) {
                    loaded.first[i] = __ldg(reinterpret_cast<const uint4*>(at));
                    loaded.second[i] = crosses ? __ldg(reinterpret_cast<const uint4*>(at) + 1) : make_uint4(0, 0, 0, 0);
                    continue;
                }
                // At both ends of the matrix, the aligned 16 bytes extend beyond it.
#pragma unroll
                for (int e = 0; e < VECTOR; ++e) {
                    if (e < exist) words[e / 2] |= (unsigned)__ldg(reinterpret_cast<const unsigned short*>(at) + shift + e) << 16 * (e % 2);
                }
#pragma unroll 1
                for (unsigned s = 0; s < shift; ++s) {
#pragma unroll
                    for (int j = 7; j > 0; --j) words[j] = __funnelshift_l(words[j - 1], words[j], 16);
                    words[0] <<= 16;
                }
            }
            loaded.first[i] = make_uint4(words[0], words[1], words[2], words[3]);
            loaded.second[i] = make_uint4(words[4], words[5], words[6], words[7]);
        }
    }

    __device__ __forceinline__ void put(const Loaded& loaded, unsigned tile, int block) const {
#pragma unroll
        for (int i = 0; i < PIECES; ++i) {
            const uint4 a = loaded.first[i], b = loaded.second[i];
            unsigned w[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
#pragma unroll
            for (int j = 0; j < 6; ++j) w[j] = shift & 4 ? w[j + 2] : w[j];
#pragma unroll
            for (int j = 0; j < 5; ++j) w[j] = shift & 2 ? w[j + 1] : w[j];
            const unsigned select = shift & 1 ? 0x5432 : 0x3210;
#pragma unroll
            for (int j = 0; j < 4; ++j) w[j] = __byte_perm(w[j], w[j + 1], select);
            // Memory past the end of k may hold anything, NaN included. Memory past the other edge only changes sums that are not stored.
            const int exist = left(block, i);
            if (ALONG_K && exist < VECTOR) {
#pragma unroll
                for (int j = 0; j < 4; ++j) w[j] = exist > 2 * j + 1 ? w[j] : exist > 2 * j ? w[j] & 0xffff : 0;
            }
            store_shared(tile + to + i * ROWS_AT_ONCE * To::ROW_BYTES, make_uint4(w[0], w[1], w[2], w[3]));
        }
    }
};

// The tile of C at (row, column) as 16-bit elements in shared memory, each row at the same offset from a multiple of 16 bytes as in C.
struct Staged {
    Out* elements;  // [BM][STAGED_STRIDE]
    unsigned lead_of_first, ldc;

    __device__ __forceinline__ Staged(void* shared, const Out* c, unsigned ldc, unsigned row, unsigned column)
        : elements(static_cast<Out*>(shared)), lead_of_first((unsigned)((size_t)c / 2) + column + row * ldc), ldc(ldc) {}

    // Number of elements between a multiple of 16 bytes and the beginning of row r. It is the same for rows that are a multiple of 8 apart.
    __device__ __forceinline__ unsigned lead(unsigned r) const { return (lead_of_first + r * ldc) % 8; }

    // Stores two adjacent elements one by one, since a row may begin in the middle of a word.
    __device__ __forceinline__ void put(unsigned r, unsigned at, float first, float second) const {
        const unsigned word = pack(Out{}, first, second);
        unsigned short* to = reinterpret_cast<unsigned short*>(elements + r * STAGED_STRIDE + lead(r) + at);
        to[0] = (unsigned short)word, to[1] = (unsigned short)(word >> 16);
    }
};

// A column past the edge of C uses the bias of the last column, since the result is not stored.
__device__ __forceinline__ float plain(const Epilogue& epilogue, float sum, unsigned column, unsigned n) {
    return epilogue.plain(sum, Epilogue::HAS_BIAS ? min(column, n - 1) : column);
}

struct Product {
    using LoadA = Shifted<BM, !TRANS_A>;
    using LoadB = Shifted<BN, TRANS_B>;
    using FragmentsA = Fragments<true, BM, !TRANS_A, WM>;
    using FragmentsB = Fragments<false, BN, TRANS_B, WN>;

    float sums[WM / 16][WN / 8][4] = {};

    // Multiplies every (SLICES * SPLIT * parts())-th block of k, starting at `block`. DEPTH blocks are in flight from memory while one is multiplied. Two
    // tiles in the ring are enough: once all warps have passed the barrier, all of them have read the previous tile.
    __device__ __forceinline__ void multiply(const LoadA& load_a, const LoadB& load_b, unsigned ring, int block, int blocks,
                                             unsigned group) {
        const int stride = SLICES * SPLIT * parts();
        const unsigned warp = threadIdx.x % GROUP_THREADS / WARP;
        const FragmentsA read_a(warp / WARPS_N);
        const FragmentsB read_b(warp % WARPS_N);
        LoadA::Loaded a[DEPTH];
        LoadB::Loaded b[DEPTH];
        unsigned tile = ring;
#pragma unroll 1
        for (int first = block - DEPTH * stride; first < blocks; first += DEPTH * stride) {
#pragma unroll
            for (int d = 0; d < DEPTH; ++d) {
                const int now = first + d * stride, then = now + DEPTH * stride;
                const bool multiplies = now >= 0 && now < blocks;
                if (multiplies) load_a.put(a[d], tile, now), load_b.put(b[d], tile + TileA::BYTES, now);
                if (then < blocks) load_a.load(a[d], then), load_b.load(b[d], then);
                if (!multiplies) continue;
                meet(group);
#pragma unroll
                for (int step = 0; step < STEPS; ++step) {
                    unsigned from_a[FragmentsA::BLOCKS][4], from_b[FragmentsB::BLOCKS][4];
                    read_a.load(from_a, tile, step);
                    read_b.load(from_b, tile + TileA::BYTES, step);
#pragma unroll
                    for (int i = 0; i < WM / 16; ++i) {
#pragma unroll
                        for (int j = 0; j < WN / 8; ++j) mma(sums[i][j], from_a[i], from_b[j / 2][j % 2 * 2], from_b[j / 2][j % 2 * 2 + 1]);
                    }
                }
                tile = tile == ring ? ring + STAGE_BYTES : ring;
            }
        }
    }

    // Calls f(i, j, r, at) for each pair of sums: i counts groups of 8 rows, j groups of 8 columns; r and at are the pair's row and first column in the tile.
    template <class F>
    __device__ __forceinline__ static void each_pair(F f) {
        const unsigned thread = threadIdx.x % GROUP_THREADS, warp = thread / WARP, lane = thread % WARP;
        const unsigned r = warp / WARPS_N * WM + lane / 4, at = warp % WARPS_N * WN + lane % 4 * 2;
#pragma unroll
        for (int j = 0; j < WN / 8; ++j) {
#pragma unroll
            for (int i = 0; i < WM / 8; ++i) f(i, j, r + 8 * i, at + 8 * j);
        }
    }

    // Applies the epilogue and writes the tile's elements of C to shared memory.
    __device__ __forceinline__ void stage(const Staged& staged, const Epilogue& epilogue, unsigned column, unsigned n) const {
        each_pair([&](int i, int j, unsigned r, unsigned at) {
            const float* pair = &sums[i / 2][j][i % 2 * 2];
            staged.put(r, at, plain(epilogue, pair[0], column + at, n), plain(epilogue, pair[1], column + at + 1, n));
        });
    }

    // Stores the tile's elements of C from registers.
    __device__ __forceinline__ void store(Out* __restrict__ c /* [m][ldc] */, const Epilogue& epilogue, unsigned row, unsigned column,
                                          unsigned m, unsigned n, unsigned ldc) const {
        each_pair([&](int i, int j, unsigned r, unsigned at) {
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                if (row + r < m && column + at + e < n) epilogue.store(c, row + r, column + at + e, ldc, sums[i / 2][j][i % 2 * 2 + e]);
            }
        });
    }

    // Writes the group's sums to shared memory, laid out as [BM][SUMS_STRIDE].
    __device__ __forceinline__ void put(float* to) const {
        each_pair([&](int i, int j, unsigned r, unsigned at) {
            const float* pair = &sums[i / 2][j][i % 2 * 2];
            *reinterpret_cast<float2*>(to + r * SUMS_STRIDE + at) = make_float2(pair[0], pair[1]);
        });
    }
};

// Stores the staged tile in chunks of 16 bytes, wherever its rows begin; only the ends of a row are stored element by element.
__device__ __forceinline__ void store_staged(const Staged& staged, Out* __restrict__ c /* [m][ldc] */, unsigned m, unsigned n, unsigned ldc,
                                             unsigned row, unsigned column) {
    constexpr int SLOTS = 16, ROWS_AT_ONCE = THREADS / SLOTS;
    const int slot = threadIdx.x % SLOTS, first = threadIdx.x / SLOTS;
    // Positions counted from the multiple of 16 bytes before the row: the row's begin and end, the slot's chunk, and its single element at one end.
    const int begin = staged.lead(first), end = begin + min(BN, (int)(n - column)), chunk = 8 * (slot + 1);
    const int single = slot < 8 ? slot : end / 8 * 8 + slot - 8;
    const bool is_whole = chunk + 8 <= end, is_single = single < end && single >= (slot < 8 ? begin : 8);
    const Out* from = staged.elements + first * STAGED_STRIDE;
    Out* to = c + (size_t)(row + first) * ldc + column - begin;
#pragma unroll 4
    for (int r = first; r < BM; r += ROWS_AT_ONCE, from += ROWS_AT_ONCE * STAGED_STRIDE, to += (size_t)ROWS_AT_ONCE * ldc) {
        if (row + r >= m) break;
        if (is_whole) *reinterpret_cast<uint4*>(to + chunk) = *reinterpret_cast<const uint4*>(from + chunk);
        if (is_single) to[single] = from[single];
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
gemm(const In* __restrict__ a /* [m][lda], or [k][lda] transposed */, const In* __restrict__ b /* [k][ldb], or [n][ldb] transposed */,
     Out* __restrict__ c /* [gridDim.y][m][ldc] */, unsigned m, unsigned n, unsigned k, unsigned lda, unsigned ldb, unsigned ldc, Epilogue epilogue) {
    extern __shared__ __align__(128) unsigned char dynamic_shared[];  // [SLICES]: two tiles of A and B; then their sums; then sums to send, or staged
    const unsigned rank = SPLIT > 1 ? cluster_rank() : 0, group = threadIdx.x / GROUP_THREADS;
    const unsigned tiles_n = (n + BN - 1) / BN, tile = blockIdx.x / SPLIT;
    const unsigned row = tile / tiles_n * BM, column = tile % tiles_n * BN;
    const Product::LoadA load_a(a, m, k, lda, row);
    const Product::LoadB load_b(b, n, k, ldb, column);
    // The other blocks of the cluster must have started before anything is sent to them.
    if (SPLIT > 1) cluster_arrive();
    let_successor_start();
    wait_for_predecessor();
    Product product;
    c += (size_t)part() * m * ldc;
    product.multiply(load_a, load_b, address_in_shared(dynamic_shared) + group * RING_BYTES, (int)((part() * SPLIT + rank) * SLICES + group),
                     (int)((k + BK - 1) / BK), group);
    // Only 16-bit elements are staged.
    constexpr bool CAN_STAGE = SPLIT == 1 && sizeof(Out) == 2;
    const bool stages = CAN_STAGE && epilogue.is_plain();
    const Staged staged(dynamic_shared + GROUPS_BYTES, c, ldc, row, column);
    __syncthreads();
    if constexpr (ALONE) {
        if constexpr (CAN_STAGE) {
            if (stages) product.stage(staged, epilogue, column, n);
        }
        if (!stages) product.store(c, epilogue, row, column, m, n, ldc);
    } else {
        float* sums = reinterpret_cast<float*>(dynamic_shared);  // [SLICES][BM][SUMS_STRIDE]
        product.put(sums + group * (SUMS_BYTES / 4));
        __syncthreads();
        const auto of_slices = [&](unsigned r, unsigned at) {
            float sum = sums[r * SUMS_STRIDE + at];
#pragma unroll
            for (int s = 1; s < SLICES; ++s) sum += sums[s * (SUMS_BYTES / 4) + r * SUMS_STRIDE + at];
            return sum;
        };
        if constexpr (SPLIT == 1) {
#pragma unroll 4
            for (unsigned i = threadIdx.x; i < BM * BN / 2; i += THREADS) {
                const unsigned r = i / (BN / 2), at = i % (BN / 2) * 2;
                if (row + r >= m) break;
                if constexpr (CAN_STAGE) {
                    if (stages) {
                        const auto value = [&](unsigned e) { return plain(epilogue, of_slices(r, at + e), column + at + e, n); };
                        staged.put(r, at, value(0), value(1));
                        continue;
                    }
                }
#pragma unroll
                for (unsigned e = 0; e < 2; ++e) {
                    if (column + at + e < n) epilogue.store(c, row + r, column + at + e, ldc, of_slices(r, at + e));
                }
            }
        } else {
            // Each block sends its sums to the block that stores the corresponding rows; each sender has a slot behind the groups' memory.
            cluster_wait();
            const float* received = reinterpret_cast<const float*>(dynamic_shared + GROUPS_BYTES);  // [SPLIT][ROWS][BN]
#pragma unroll 4
            for (unsigned i = threadIdx.x; i < BM * BN; i += THREADS) {
                const unsigned r = i / BN, at = i % BN;
                const unsigned to = address_in(r / ROWS, received + (rank * ROWS + r % ROWS) * BN + at);
                asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(to), "f"(of_slices(r, at)) : "memory");
            }
            cluster_sync();
            for (unsigned i = threadIdx.x; i < ROWS * BN; i += THREADS) {
                const unsigned r = row + rank * ROWS + i / BN, at = column + i % BN;
                // Adds the sums in the order of the senders, so that results repeat bit for bit.
                float sum = received[i];
#pragma unroll
                for (int s = 1; s < SPLIT; ++s) sum += received[s * ROWS * BN + i];
                if (r < m && at < n) epilogue.store(c, r, at, ldc, sum);
            }
        }
    }
    if (stages) {
        __syncthreads();
        store_staged(staged, c, m, n, ldc, row, column);
    }
}
