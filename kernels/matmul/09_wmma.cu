// Idea: tensor cores multiply blocks of 16 x 16 x 16 with one warp instruction; wmma hides how a block is distributed over the lanes.
// Formula: C = f(alpha op(A) op(B) + beta C); f16 or bf16 in, f32 sums; row-major, BM x BN of C per block, WM x WN per warp.
// Since the last rung: wmma.mma instead of FMAs, on 16-bit tiles in memory order; two buffers, loaded through registers.
// Needs: f16 on sm_70, bf16 on sm_80; any m, n, k; fast loads only if A and B and their rows are 16-byte aligned.
// Expect: far faster than FMAs, far below the tensor cores' peak: the tensor cores stall on fragment loads from shared memory every 16 steps of k.
#include "matmul/mma.cuh"

static_assert(IN != TYPE_F32, "wmma's 16 x 16 x 16 blocks have 16-bit types");
static_assert(BM % WM == 0 && BN % WN == 0 && THREADS == BM / WM * (BN / WN) * WARP, "the warps' parts cover the tile");
static_assert(WM % 16 == 0 && WN % 16 == 0 && BK % 16 == 0, "parts consist of blocks of 16");

// An operand's tile in shared memory, OUTER (along m or n) x BK: [OUTER][BK] if it is contiguous along k in memory, otherwise [BK][OUTER].
template <int OUTER, bool ALONG_K>
struct PaddedTile {
    static constexpr int ROWS = ALONG_K ? OUTER : BK, COLUMNS = ALONG_K ? BK : OUTER, CHUNKS = COLUMNS / VECTOR;
    // Rows are padded by 16 bytes, so that eight rows that are read at once start in different banks.
    static constexpr int STRIDE = COLUMNS + VECTOR, SIZE = ROWS * STRIDE;
    static constexpr int PIECES = ROWS * CHUNKS / THREADS;
    static_assert(COLUMNS % VECTOR == 0 && ROWS * CHUNKS % THREADS == 0, "every thread loads the same number of chunks");

    uint4 pieces[PIECES];  // loaded from memory, not yet in the tile

    // Loads the tile at (`outer`, `k`); `outer_end` and `k_end` are the operand's extents.
    __device__ __forceinline__ void fetch(const In* __restrict__ matrix, unsigned outer, unsigned k, unsigned outer_end,
                                          unsigned k_end, unsigned ld, bool aligned) {
#pragma unroll
        for (int p = 0; p < PIECES; ++p) {
            const unsigned i = threadIdx.x + p * THREADS;
            const unsigned row = i / CHUNKS + (ALONG_K ? outer : k), column = i % CHUNKS * VECTOR + (ALONG_K ? k : outer);
            const int left = row < (ALONG_K ? outer_end : k_end) ? (int)(ALONG_K ? k_end : outer_end) - (int)column : 0;
            pieces[p] = load_chunk(matrix + (size_t)row * ld + column, left, aligned);
        }
    }
    __device__ __forceinline__ void put(In* tile /* [ROWS][STRIDE] */) const {
#pragma unroll
        for (int p = 0; p < PIECES; ++p) {
            const unsigned i = threadIdx.x + p * THREADS;
            *reinterpret_cast<uint4*>(tile + i / CHUNKS * STRIDE + i % CHUNKS * VECTOR) = pieces[p];
        }
    }
    __device__ static constexpr unsigned offset(unsigned outer, unsigned k) {
        return ALONG_K ? outer * STRIDE + k : k * STRIDE + outer;
    }
};
using TileA = PaddedTile<BM, !TRANS_A>;
using TileB = PaddedTile<BN, TRANS_B>;

// Number of registers per lane for a 16 x 16 block of A or B: f16 keeps the layout of the first tensor cores, which held each element twice.
constexpr int FRAGMENT = IN == TYPE_F16 ? 8 : 4;
#if IN == TYPE_F16
#define WMMA_TYPE "f16"
#define WMMA_TYPES "f32.f32"
#define WMMA_LOADED "{%0, %1, %2, %3, %4, %5, %6, %7}, [%8], %9"
#define WMMA_A_B "{%8, %9, %10, %11, %12, %13, %14, %15}, {%16, %17, %18, %19, %20, %21, %22, %23}"
#define WMMA_OUTPUT(r) "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]), "=r"(r[4]), "=r"(r[5]), "=r"(r[6]), "=r"(r[7])
#define WMMA_INPUT(r) "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]), "r"(r[4]), "r"(r[5]), "r"(r[6]), "r"(r[7])
#else
#define WMMA_TYPE "bf16"
#define WMMA_TYPES "f32.bf16.bf16.f32"
#define WMMA_LOADED "{%0, %1, %2, %3}, [%4], %5"
#define WMMA_A_B "{%8, %9, %10, %11}, {%12, %13, %14, %15}"
#define WMMA_OUTPUT(r) "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
#define WMMA_INPUT(r) "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
#endif
#define WMMA_SUMS "{%0, %1, %2, %3, %4, %5, %6, %7}"
#if TRANS_A
#define WMMA_LAYOUT_A "col"
#else
#define WMMA_LAYOUT_A "row"
#endif
#if TRANS_B
#define WMMA_LAYOUT_B "col"
#else
#define WMMA_LAYOUT_B "row"
#endif

// Loads and stores blocks of 16 x 16 in shared memory, rows (or columns) `stride` elements apart. The PTX ISA, "wmma", asks for 32-byte
// aligned rows of f16. CUDA's mma.h accepts 16-byte aligned rows, and ldmatrix, the instruction that this compiles to, needs no more.
__device__ __forceinline__ void wmma_load_a(unsigned (&r)[FRAGMENT], unsigned from, int stride) {
    asm volatile("wmma.load.a.sync.aligned." WMMA_LAYOUT_A ".m16n16k16.shared." WMMA_TYPE " " WMMA_LOADED ";"
                 : WMMA_OUTPUT(r) : "r"(from), "r"(stride) : "memory");
}
__device__ __forceinline__ void wmma_load_b(unsigned (&r)[FRAGMENT], unsigned from, int stride) {
    asm volatile("wmma.load.b.sync.aligned." WMMA_LAYOUT_B ".m16n16k16.shared." WMMA_TYPE " " WMMA_LOADED ";"
                 : WMMA_OUTPUT(r) : "r"(from), "r"(stride) : "memory");
}
__device__ __forceinline__ void wmma_store(unsigned to, const float (&d)[8], int stride) {
    asm volatile("wmma.store.d.sync.aligned.row.m16n16k16.shared.f32 [%8], " WMMA_SUMS ", %9;"
                 ::"f"(d[0]), "f"(d[1]), "f"(d[2]), "f"(d[3]), "f"(d[4]), "f"(d[5]), "f"(d[6]), "f"(d[7]), "r"(to), "r"(stride) : "memory");
}
// Computes d += a b for blocks of 16 x 16.
__device__ __forceinline__ void wmma_mma(float (&d)[8], const unsigned (&a)[FRAGMENT], const unsigned (&b)[FRAGMENT]) {
    asm volatile("wmma.mma.sync.aligned." WMMA_LAYOUT_A "." WMMA_LAYOUT_B ".m16n16k16." WMMA_TYPES " "
                 WMMA_SUMS ", " WMMA_A_B ", " WMMA_SUMS ";"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
                 : WMMA_INPUT(a), WMMA_INPUT(b));
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
gemm(const In* __restrict__ a /* [m][lda], or [k][lda] transposed */, const In* __restrict__ b /* [k][ldb], or [n][ldb] transposed */,
     Out* __restrict__ c /* [m][ldc] */, unsigned m, unsigned n, unsigned k, unsigned lda, unsigned ldb, unsigned ldc, Epilogue epilogue) {
    constexpr int PATCH = 16 * 16, WARPS = THREADS / WARP, WARPS_N = BN / WN;
    constexpr int BYTES = 2 * (TileA::SIZE + TileB::SIZE) * sizeof(In), PATCH_BYTES = WARPS * PATCH * sizeof(float);
    static_assert(BYTES <= 48 << 10 && PATCH_BYTES <= 48 << 10, "static shared memory is limited to 48 KiB per block");
    static_assert(TileA::SIZE * sizeof(In) % 32 == 0 && TileB::SIZE * sizeof(In) % 32 == 0, "wmma needs blocks aligned to 32 bytes");
    __shared__ __align__(128) unsigned char shared[BYTES > PATCH_BYTES ? BYTES : PATCH_BYTES];
    // [2]: A's tile, B's tile. One pair is multiplied while the other is filled.
    In* tiles = reinterpret_cast<In*>(shared);
    constexpr int BOTH = TileA::SIZE + TileB::SIZE;

    const unsigned tiles_n = (n + BN - 1) / BN, stages = (k + BK - 1) / BK;
    const unsigned row = blockIdx.x / tiles_n * BM, column = blockIdx.x % tiles_n * BN;
    const unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const unsigned warp_row = warp / WARPS_N * WM, warp_column = warp % WARPS_N * WN;
    const bool aligned_a = (size_t)a % 16 == 0 && lda % VECTOR == 0, aligned_b = (size_t)b % 16 == 0 && ldb % VECTOR == 0;

    TileA tile_a;
    TileB tile_b;
    const auto fetch = [&](unsigned stage) {
        tile_a.fetch(a, row, stage * BK, m, k, lda, aligned_a);
        tile_b.fetch(b, column, stage * BK, n, k, ldb, aligned_b);
    };
    const auto put = [&](unsigned stage) {
        tile_a.put(tiles + stage % 2 * BOTH);
        tile_b.put(tiles + stage % 2 * BOTH + TileA::SIZE);
    };
    fetch(0);
    put(0);
    __syncthreads();

    float sums[WM / 16][WN / 16][8] = {};
    for (unsigned stage = 0; stage < stages; ++stage) {
        if (stage + 1 < stages) fetch(stage + 1);
        const unsigned from = address_in_shared(tiles + stage % 2 * BOTH);
#pragma unroll
        for (int s = 0; s < BK; s += 16) {
            unsigned of_a[WM / 16][FRAGMENT], of_b[WN / 16][FRAGMENT];
#pragma unroll
            for (int i = 0; i < WM / 16; ++i) {
                wmma_load_a(of_a[i], from + TileA::offset(warp_row + i * 16, s) * sizeof(In), TileA::STRIDE);
            }
#pragma unroll
            for (int j = 0; j < WN / 16; ++j) {
                wmma_load_b(of_b[j], from + (TileA::SIZE + TileB::offset(warp_column + j * 16, s)) * sizeof(In), TileB::STRIDE);
            }
#pragma unroll
            for (int i = 0; i < WM / 16; ++i) {
#pragma unroll
                for (int j = 0; j < WN / 16; ++j) wmma_mma(sums[i][j], of_a[i], of_b[j]);
            }
        }
        if (stage + 1 < stages) put(stage + 1);
        __syncthreads();
    }

    // Only wmma.store knows which lane holds which sum, so the sums go through shared memory, which the tiles no longer need.
    float* patch = reinterpret_cast<float*>(shared) + warp * PATCH;  // [16][16], one block of sums
#pragma unroll
    for (int i = 0; i < WM / 16; ++i) {
#pragma unroll
        for (int j = 0; j < WN / 16; ++j) {
            wmma_store(address_in_shared(patch), sums[i][j], 16);
            __syncwarp();
#pragma unroll
            for (int e = 0; e < PATCH; e += WARP) {
                const unsigned r = row + warp_row + i * 16 + (e + lane) / 16, at = column + warp_column + j * 16 + lane % 16;
                if (r < m && at < n) epilogue.store(c, r, at, ldc, patch[e + lane]);
            }
            __syncwarp();
        }
    }
}
