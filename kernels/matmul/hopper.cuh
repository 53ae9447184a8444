// Building blocks for Hopper (sm_90a): tiles that TMA copies into shared memory, and wgmma, which multiplies them there.
// A kernel that includes this is compiled with BM, BN (tile of C) and STAGES (tiles of A and B in flight).
#pragma once
#include "launch.cuh"
#include "matmul/gemm.cuh"
#include "matmul/tma.cuh"
#include "matmul/wgmma.cuh"

// Number of blocks in a cluster (CLUSTER), and how many of them are adjacent along n (CLUSTER_N); a cluster has CLUSTER / CLUSTER_N rows of blocks.
#ifndef CLUSTER
#define CLUSTER 1
#endif
#ifndef CLUSTER_N
#define CLUSTER_N 1
#endif
// If 1, wgmma computes C^T = B^T A^T with its first operand, which comes from B's tile, in registers.
#ifndef B_IN_REGISTERS
#define B_IN_REGISTERS 0
#endif
// If 1, wgmma computes C^T = B^T A^T from both tiles in shared memory. Its 64 rows are columns of C, so the tile may have any multiple of 16 rows.
#ifndef SWAPPED
#define SWAPPED 0
#endif
// The number of instructions that cover a warpgroup's tile, stacked vertically, with 64 rows each (columns if swapped).
#ifndef HEIGHT
#define HEIGHT 1
#endif
constexpr int CLUSTER_M = CLUSTER / CLUSTER_N;
static_assert(CLUSTER_M * CLUSTER_N == CLUSTER, "a cluster is a rectangle");

constexpr int ROW_BYTES = 128;               // A row of a tile in shared memory, as wide as TMA's widest swizzle.
constexpr int BK = ROW_BYTES / sizeof(In);   // Elements along k in a stage.
constexpr int LANES = ROW_BYTES / sizeof(In);  // Elements in a row of a tile that is contiguous along m or n.
// A tile that is contiguous along m or n is loaded in boxes of LANES; the last box may extend past the tile.
constexpr int A_BOXES = (BM + LANES - 1) / LANES, B_BOXES = (BN + LANES - 1) / LANES, BOX_BYTES_MN = BK * ROW_BYTES;
constexpr int A_BYTES = TRANS_A ? A_BOXES * BOX_BYTES_MN : BM * ROW_BYTES, B_BYTES = TRANS_B ? BN * ROW_BYTES : B_BOXES * BOX_BYTES_MN;
constexpr int STAGE_BYTES = A_BYTES + B_BYTES;
constexpr int WIDTH = SWAPPED ? BM : BN;  // Number of columns of an instruction.
constexpr int CHUNK_BYTES = 64 * ROW_BYTES;  // Bytes of 64 rows: one warpgroup's share, or one TMA box.
constexpr int K_STEPS = ROW_BYTES / 32;      // An instruction multiplies 32 bytes of k.
static_assert((SWAPPED ? BN : BM) % (64 * HEIGHT) == 0, "a warpgroup multiplies 64 rows, or swapped 64 columns, with each instruction");
static_assert(A_BYTES % 1024 == 0 && B_BYTES % 1024 == 0, "the swizzle needs tiles at multiples of 1024 bytes");
static_assert(sizeof(In) == 2 || (!TRANS_A && (TRANS_B || B_IN_REGISTERS)), "32-bit tiles in shared memory must be contiguous along k");
static_assert(TRANS_A || BM % CLUSTER_N == 0, "the blocks that share A's tile load whole rows");
static_assert(!TRANS_B || BN % CLUSTER_M == 0, "the blocks that share B's tile load whole rows");

// A position in the ring of stages, and the parity of the current round through the ring.
struct Ring {
    unsigned stage = 0, parity = 0;
    __device__ __forceinline__ void advance() {
        if (++stage == STAGES) stage = 0, parity ^= 1;
    }
};

// Starts to load the tile of op(A) at (row, k), or of op(B) at (k, column). Blocks of a cluster that need the same tile each load a
// part of it and multicast it: blocks in one row share A's tile, and blocks in one column share B's. `rank` counts along a column first, starting at
// the cluster's block `first_rank` if only some of its blocks share tiles.
// The tiles are swizzled: 16-byte piece c of row r is stored at piece c ^ (r % 8).
__device__ __forceinline__ void load_a(unsigned to, const TensorMap* a, unsigned row, unsigned k, unsigned barrier, unsigned rank = 0,
                                       unsigned first_rank = 0) {
    const unsigned part = rank / CLUSTER_M;
    const auto load = [&](unsigned to, unsigned x, unsigned y) {
        // Mask of the blocks in this row: every CLUSTER_M-th bit.
        constexpr unsigned ROW = ((1u << CLUSTER) - 1) / ((1u << CLUSTER_M) - 1);
        if constexpr (CLUSTER_N > 1) load_box_to(ROW << (rank % CLUSTER_M + first_rank), to, a, x, y, barrier);
        else load_box(to, a, x, y, barrier);
    };
    if constexpr (TRANS_A) {
        constexpr int EACH = (A_BOXES + CLUSTER_N - 1) / CLUSTER_N;
#pragma unroll
        for (int i = 0; i < EACH; ++i) {
            const unsigned box = part * EACH + i;
            if (A_BOXES % CLUSTER_N == 0 || box < A_BOXES) load(to + box * BOX_BYTES_MN, row + box * LANES, k);  // [k][64 rows]
        }
    } else {
        load(to + part * (A_BYTES / CLUSTER_N), k, row + part * (BM / CLUSTER_N));  // [BM / CLUSTER_N][k]
    }
}
__device__ __forceinline__ void load_b(unsigned to, const TensorMap* b, unsigned column, unsigned k, unsigned barrier, unsigned rank = 0,
                                       unsigned first_rank = 0, bool once = false) {
    const unsigned part = rank % CLUSTER_M;
    const auto load = [&](unsigned to, unsigned x, unsigned y) {
        constexpr unsigned COLUMN = (1u << CLUSTER_M) - 1;
        if constexpr (CLUSTER_M > 1) load_box_to(COLUMN << (rank / CLUSTER_M * CLUSTER_M + first_rank), to, b, x, y, barrier);
        else if (once) load_box_once(to, b, x, y, barrier);
        else load_box(to, b, x, y, barrier);
    };
    if constexpr (TRANS_B) {
        load(to + part * (B_BYTES / CLUSTER_M), k, column + part * (BN / CLUSTER_M));  // [BN / CLUSTER_M][k]
    } else {
        constexpr int EACH = (B_BOXES + CLUSTER_M - 1) / CLUSTER_M;
#pragma unroll
        for (int i = 0; i < EACH; ++i) {
            const unsigned box = part * EACH + i;
            if (B_BOXES % CLUSTER_M == 0 || box < B_BOXES) load(to + box * BOX_BYTES_MN, column + box * LANES, k);  // [k][64 columns, or 32]
        }
    }
}

// The matrix descriptor of a tile for wgmma: its address, and the strides between groups of eight rows of 128 bytes (along k, and
// along m or n), in units of 16 bytes. This is the lower half; the upper half is the same for all tiles.
__device__ __forceinline__ unsigned descriptor(unsigned address, bool along_k) {
    const unsigned leading = along_k ? 1 : CHUNK_BYTES / 16;
    return (address & 0x3ffff) >> 4 | leading << 16;
}
__device__ __forceinline__ unsigned long long whole_descriptor(unsigned lower) {
    constexpr unsigned STRIDE = 8 * ROW_BYTES / 16, SWIZZLE_128 = 1;
    return (unsigned long long)(STRIDE | SWIZZLE_128 << 30) << 32 | lower;
}
// The increment of the descriptor from one of the K_STEPS to the next: 32 bytes along a row, or as many rows as there are elements in 32 bytes.
constexpr int A_STEP = TRANS_A ? 32 / sizeof(In) * ROW_BYTES / 16 : 2;
constexpr int B_STEP = TRANS_B ? 2 : 32 / sizeof(In) * ROW_BYTES / 16;
// The descriptor increments of an instruction's two operands, and whether each is contiguous along m or n. The first operand's rows are the rows of the sums.
constexpr int FIRST_STEP = SWAPPED ? B_STEP : A_STEP, SECOND_STEP = SWAPPED ? A_STEP : B_STEP;
constexpr int FIRST_ALONG_MN = SWAPPED ? !TRANS_B : TRANS_A, SECOND_ALONG_MN = SWAPPED ? TRANS_A : !TRANS_B;

#define MULTIPLY_N(N, K16, K8, A, B, P, TA, TB) \
    __device__ __forceinline__ void multiply_step(float (&d)[N / 2], unsigned long long a, unsigned long long b, int add) { \
        if constexpr (IN == TYPE_F32) { \
            MULTIPLY(K8, "f32.tf32.tf32", MULTIPLY_SUMS, A, B, P, "", MULTIPLY_BOUND); \
        } else if constexpr (IN == TYPE_F16) { \
            MULTIPLY(K16, "f32.f16.f16", MULTIPLY_SUMS, A, B, P, ", %" #TA ", %" #TB, MULTIPLY_BOUND, , "n"(FIRST_ALONG_MN), "n"(SECOND_ALONG_MN)); \
        } else { \
            MULTIPLY(K16, "f32.bf16.bf16", MULTIPLY_SUMS, A, B, P, ", %" #TA ", %" #TB, MULTIPLY_BOUND, , "n"(FIRST_ALONG_MN), "n"(SECOND_ALONG_MN)); \
        } \
    }
// The columns of an instruction: the columns of the tile of C, or its rows if swapped.
#if SWAPPED
#define WGMMA_N BM
#else
#define WGMMA_N BN
#endif
#if WGMMA_N == 32
#define MULTIPLY_SUMS SUMS_16
#define MULTIPLY_BOUND D_16(0)
MULTIPLY_N(32, "m64n32k16", "m64n32k8", 16, 17, 18, 19, 20)
#elif WGMMA_N == 48
#define MULTIPLY_SUMS SUMS_24
#define MULTIPLY_BOUND D_24(0)
MULTIPLY_N(48, "m64n48k16", "m64n48k8", 24, 25, 26, 27, 28)
#elif WGMMA_N == 64
#define MULTIPLY_SUMS SUMS_32
#define MULTIPLY_BOUND D_32(0)
MULTIPLY_N(64, "m64n64k16", "m64n64k8", 32, 33, 34, 35, 36)
#elif WGMMA_N == 80
#define MULTIPLY_SUMS SUMS_40
#define MULTIPLY_BOUND D_40(0)
MULTIPLY_N(80, "m64n80k16", "m64n80k8", 40, 41, 42, 43, 44)
#elif WGMMA_N == 96
#define MULTIPLY_SUMS SUMS_48
#define MULTIPLY_BOUND D_48(0)
MULTIPLY_N(96, "m64n96k16", "m64n96k8", 48, 49, 50, 51, 52)
#elif WGMMA_N == 112
#define MULTIPLY_SUMS SUMS_56
#define MULTIPLY_BOUND D_56(0)
MULTIPLY_N(112, "m64n112k16", "m64n112k8", 56, 57, 58, 59, 60)
#elif WGMMA_N == 128
#define MULTIPLY_SUMS SUMS_64
#define MULTIPLY_BOUND D_64(0)
MULTIPLY_N(128, "m64n128k16", "m64n128k8", 64, 65, 66, 67, 68)
#elif WGMMA_N == 144
#define MULTIPLY_SUMS SUMS_72
#define MULTIPLY_BOUND D_72(0)
MULTIPLY_N(144, "m64n144k16", "m64n144k8", 72, 73, 74, 75, 76)
#elif WGMMA_N == 160
#define MULTIPLY_SUMS SUMS_80
#define MULTIPLY_BOUND D_80(0)
MULTIPLY_N(160, "m64n160k16", "m64n160k8", 80, 81, 82, 83, 84)
#elif WGMMA_N == 176
#define MULTIPLY_SUMS SUMS_88
#define MULTIPLY_BOUND D_88(0)
MULTIPLY_N(176, "m64n176k16", "m64n176k8", 88, 89, 90, 91, 92)
#elif WGMMA_N == 192
#define MULTIPLY_SUMS SUMS_96
#define MULTIPLY_BOUND D_96(0)
MULTIPLY_N(192, "m64n192k16", "m64n192k8", 96, 97, 98, 99, 100)
#elif WGMMA_N == 208
#define MULTIPLY_SUMS SUMS_104
#define MULTIPLY_BOUND D_104(0)
MULTIPLY_N(208, "m64n208k16", "m64n208k8", 104, 105, 106, 107, 108)
#elif WGMMA_N == 224
#define MULTIPLY_SUMS SUMS_112
#define MULTIPLY_BOUND D_112(0)
MULTIPLY_N(224, "m64n224k16", "m64n224k8", 112, 113, 114, 115, 116)
#elif WGMMA_N == 256
#define MULTIPLY_SUMS SUMS_128
#define MULTIPLY_BOUND D_128(0)
MULTIPLY_N(256, "m64n256k16", "m64n256k8", 128, 129, 130, 131, 132)
#else
#error "a width of wgmma that is not defined here"
#endif

// The sums of a warpgroup, distributed over its threads: 64 x WIDTH for each of its HEIGHT instructions. The 64 rows of an instruction are
// rows of the tile of C, or its columns if swapped.
struct Sums {
    static constexpr int EACH = WIDTH / 2, ALL = HEIGHT * EACH;
    float d[ALL];

    // Returns the sums of instruction i.
    __device__ __forceinline__ float (&of(int i))[EACH] { return *reinterpret_cast<float (*)[EACH]>(d + i * EACH); }

    // Begins to multiply a stage's tiles, given the lower halves of the first and second operands' descriptors; add = 0 overwrites the sums.
    __device__ __forceinline__ void multiply(unsigned a, unsigned b, int add) {
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int s = 0; s < K_STEPS; ++s) {
#pragma unroll
            for (int i = 0; i < HEIGHT; ++i) {
                const unsigned first = a + s * FIRST_STEP + i * (CHUNK_BYTES / 16);
                multiply_step(of(i), whole_descriptor(first), whole_descriptor(b + s * SECOND_STEP), s > 0 ? 1 : add);
            }
        }
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    }

    // Waits until the multiplication of all but the last N stages has finished.
    template <int N> __device__ __forceinline__ void wait() {
        asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
    }

    // Keeps the compiler from moving reads of the sums before this point.
    __device__ __forceinline__ void hold() {
#pragma unroll
        for (int i = 0; i < ALL; ++i) asm volatile("" : "+f"(d[i])::"memory");
    }

    // For tiles of one instruction: writes the sums to C at (row, column) straight from registers: 16 or 32 contiguous bytes of a row at a time.
    __device__ __forceinline__ void store(Out* __restrict__ c /* [m][ldc] */, unsigned m, unsigned n, unsigned ldc, unsigned row,
                                          unsigned column, const Epilogue& epilogue) const {
        const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
        const bool quick = epilogue.is_plain() && Epilogue::in_pairs(c, n, ldc);
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            const unsigned r = row + 16 * warp + lane / 4 + 8 * h, first = column + lane % 4 * 2;
            if (r >= m) continue;
            if (quick) {
                Out* to = c + (size_t)r * ldc + first;
#pragma unroll
                for (int j = 0; j < WIDTH / 8; ++j) {
                    const unsigned at = first + 8 * j;
                    if (at < n) store_word(to + 8 * j, epilogue.plain(d[4 * j + 2 * h], at), epilogue.plain(d[4 * j + 2 * h + 1], at + 1));
                }
            } else {
#pragma unroll
                for (int i = 0; i < WIDTH / 4; ++i) {
                    const unsigned at = first + i / 2 * 8 + i % 2;
                    if (at < n) epilogue.store(c, r, at, ldc, d[4 * (i / 2) + 2 * h + i % 2]);
                }
            }
        }
    }
};

// A 4 x 4 transpose of words across four lanes: exchanges every second word, then every second pair of words.
__device__ __forceinline__ void exchange_among_four(unsigned (&w)[4]) {
#pragma unroll
    for (int bit = 1; bit <= 2; bit *= 2) {
        const bool odd = threadIdx.x & bit;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if (i & bit) continue;
            const unsigned theirs = __shfl_xor_sync(0xffffffffu, odd ? w[i] : w[i | bit], bit);
            if (odd) w[i] = theirs;
            else w[i | bit] = theirs;
        }
    }
}

// Writes 64 rows of 16-bit elements, pairs[2 j + h] distributed like the sums: the four lanes of a row exchange pairs until each has 16
// contiguous bytes. C's rows and its edge must be at multiples of 16 bytes. If the number of columns is not a multiple of 32, some lanes have
// nothing to write in the last step.
template <int PAIRS>
__device__ __forceinline__ void store_wide(const unsigned (&pairs)[PAIRS], Out* __restrict__ c /* [m][ldc] */, unsigned m, unsigned n,
                                           unsigned ldc, unsigned row, unsigned column) {
    static_assert(PAIRS % 2 == 0, "a pair in each of two rows");
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        const unsigned r = row + 16 * warp + lane / 4 + 8 * h;
#pragma unroll
        for (int j = 0; j < PAIRS / 2; j += 4) {
            unsigned w[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) w[i] = j + i < PAIRS / 2 ? pairs[2 * (j + i) + h] : 0;
            exchange_among_four(w);
            const unsigned group = j + lane % 4, at = column + 8 * group;
            if (group < PAIRS / 2 && r < m && at < n) *reinterpret_cast<uint4*>(c + (size_t)r * ldc + at) = make_uint4(w[0], w[1], w[2], w[3]);
        }
    }
}
