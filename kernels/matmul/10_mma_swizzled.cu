// Idea: keep tensor cores busy: load the next fragments and tiles while the current ones are multiplied, without bank conflicts.
// Formula: C = f(alpha op(A) op(B) + beta C); f16, bf16 or tf32 in, f32 sums; row-major, BM x BN of C per block, WM x WN per warp.
// Since the last rung: mma.sync on fragments that ldmatrix reads from swizzled tiles one step ahead; the ring of tiles from 08.
// Needs: sm_80; any m, n, k; the fast path only if base, leading dimension and row length of A and B are multiples of 16 bytes.
// Expect: close to the peak of mma.sync, which is the tensor cores' full rate on sm_80 and well below wgmma's rate on Hopper.
#include "matmul/mma.cuh"

// Number of rows of tiles in a group. Groups are traversed column by column: concurrent blocks then share more of A and B in L2.
#ifndef GROUP
#define GROUP 1
#endif

constexpr int WARPS_N = BN / WN, STEPS = BK / K_STEP;
using TileA = Tile<BM, !TRANS_A>;
using TileB = Tile<BN, TRANS_B>;
constexpr int STAGE_BYTES = TileA::BYTES + TileB::BYTES;
static_assert(BM % WM == 0 && BN % WN == 0 && THREADS == BM / WM * WARPS_N * WARP, "the warps' parts cover the tile");
static_assert(STEPS % 2 == 0 && BK % K_STEP == 0, "a stage ends in the same register buffer that it started in");
static_assert(STAGES >= 2, "one stage is multiplied while another is loaded");
static_assert(DYNAMIC_SHARED_BYTES >= STAGES * STAGE_BYTES, "room for all stages");
static_assert(TileA::BYTES % 128 == 0 && TileB::BYTES % 128 == 0, "the swizzle needs tiles at multiples of 128 bytes");

struct Product {
    using FetchA = Fetch<BM, !TRANS_A>;
    using FetchB = Fetch<BN, TRANS_B>;
    using FragmentsA = Fragments<true, BM, !TRANS_A, WM>;
    using FragmentsB = Fragments<false, BN, TRANS_B, WN>;
    static constexpr int PIECES = FetchA::PIECES + FetchB::PIECES;

    float sums[WM / 16][WN / 8][4] = {};

    // Runs the loop over k. WHOLE: uses the fast path of Fetch.
    template <bool WHOLE>
    __device__ __forceinline__ void multiply(FetchA fetch_a, FetchB fetch_b, unsigned ring, unsigned stages, unsigned warp) {
        // Past the end of k, `fetch` fills tiles with zeros, so that no step is a special case.
        const auto fetch = [&](unsigned stage, int first, int last) {
#pragma unroll
            for (int i = first; i < last && i < PIECES; ++i) {
                if (i < FetchA::PIECES) fetch_a.template piece<WHOLE>(stage, i);
                else fetch_b.template piece<WHOLE>(stage + TileA::BYTES, i - FetchA::PIECES);
            }
        };
        const auto fetched = [&] {
            cp_async_commit();
            fetch_a.advance(), fetch_b.advance();
        };
        const auto next = [&](unsigned& stage) {
            stage += STAGE_BYTES;
            if (stage == ring + STAGES * STAGE_BYTES) stage = ring;
        };
        const FragmentsA read_a(warp / WARPS_N);
        const FragmentsB read_b(warp % WARPS_N);
        unsigned a[2][FragmentsA::BLOCKS][4], b[2][FragmentsB::BLOCKS][4];

        unsigned reading = ring, writing = ring;
#pragma unroll 1
        for (int s = 0; s < STAGES - 1; ++s) {
            fetch(writing, 0, PIECES);
            fetched();
            next(writing);
        }
        cp_async_wait<STAGES - 2>();
        __syncthreads();
        read_a.load(a[0], reading, 0);
        read_b.load(b[0], reading + TileA::BYTES, 0);

        for (unsigned stage = 0; stage < stages; ++stage) {
#pragma unroll
            for (int step = 0; step < STEPS; ++step) {
                if (step == STEPS - 1) {
                    fetched();
                    next(writing);
                    next(reading);
                    // After this, the next stage has arrived and every warp has read all of this stage, which the following copies overwrite.
                    cp_async_wait<STAGES - 2>();
                    __syncthreads();
                }
                const int now = step % 2, then = 1 - now;
                read_a.load(a[then], reading, (step + 1) % STEPS);
                read_b.load(b[then], reading + TileA::BYTES, (step + 1) % STEPS);
                constexpr int PIECES_A_STEP = (PIECES + STEPS - 2) / (STEPS - 1);
                if (step < STEPS - 1) fetch(writing, step * PIECES_A_STEP, (step + 1) * PIECES_A_STEP);
                multiply_step(a[now], b[now]);
            }
        }
        cp_async_wait<0>();
    }

    __device__ __forceinline__ void multiply_step(unsigned (&a)[WM / 16][4], unsigned (&b)[WN / 16][4]) {
        if constexpr (IN == TYPE_F32) {
#pragma unroll
            for (int i = 0; i < WM / 16 * 4; ++i) round_to_tf32(a[i / 4][i % 4]);
#pragma unroll
            for (int j = 0; j < WN / 16 * 4; ++j) round_to_tf32(b[j / 4][j % 4]);
        }
#pragma unroll
        for (int i = 0; i < WM / 16; ++i) {
#pragma unroll
            for (int s = 0; s < WN / 8; ++s) {
                // Every other row is traversed backwards, so that its first instruction shares an operand with the previous one.
                const int j = i % 2 ? WN / 8 - 1 - s : s;
                mma(sums[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
            }
        }
    }

    // Writes the warp's part of C, at (row, column). Conditions that hold for all elements are checked once.
    __device__ __forceinline__ void store(Out* __restrict__ c /* [m][ldc] */, unsigned m, unsigned n, unsigned ldc, unsigned row,
                                          unsigned column, Epilogue epilogue) const {
        const bool pairs = row + WM <= m && column + WN <= n && Epilogue::in_pairs(c, n, ldc);
        row += threadIdx.x % WARP / 4, column += threadIdx.x % 4 * 2;
        if (pairs && epilogue.beta == 0.0f) {
            epilogue.beta = 0.0f;  // Lets the compiler remove the reads of C.
            store_rows<true>(c, m, n, ldc, row, column, epilogue);
        } else if (pairs) {
            store_rows<true>(c, m, n, ldc, row, column, epilogue);
        } else {
            store_rows<false>(c, m, n, ldc, row, column, epilogue);
        }
    }

    // Stores elements, starting at this lane's first. PAIRS: all elements exist, and two adjacent ones are stored as one word.
    template <bool PAIRS>
    __device__ __forceinline__ void store_rows(Out* __restrict__ c /* [m][ldc] */, unsigned m, unsigned n, unsigned ldc,
                                               unsigned row, unsigned column, const Epilogue& epilogue) const {
#pragma unroll
        for (int i = 0; i < WM / 8; ++i, row += 8) {
            // All reads of a row come before its writes, so that no read waits for the previous one; the next row's reads come after the writes, to
            // save registers.
            asm volatile("" ::: "memory");
            float values[WN / 4];
#pragma unroll
            for (int j = 0; j < WN / 4; ++j) {
                const float sum = sums[i / 2][j / 2][i % 2 * 2 + j % 2];
                const unsigned at = column + j / 2 * 8 + j % 2;
                // Elements outside C use the inputs of an element inside and are dropped, so that no read needs a condition.
                values[j] = epilogue(sum, c, PAIRS ? row : min(row, m - 1), PAIRS ? at : min(at, n - 1), ldc);
            }
            Out* to = c + (size_t)row * ldc + column;
#pragma unroll
            for (int j = 0; j < WN / 4; ++j) {
                const int at = j / 2 * 8 + j % 2;
                if (!PAIRS) {
                    if (row < m && column + at < n) to[at] = from_float<Out>(values[j]);
                } else if (j % 2 == 0) {
                    store_word(to + at, values[j], values[j + 1]);
                }
            }
        }
    }
};

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
gemm(const In* __restrict__ a /* [m][lda], or [k][lda] transposed */, const In* __restrict__ b /* [k][ldb], or [n][ldb] transposed */,
     Out* __restrict__ c /* [m][ldc] */, unsigned m, unsigned n, unsigned k, unsigned lda, unsigned ldb, unsigned ldc, Epilogue epilogue) {
    extern __shared__ __align__(128) unsigned char dynamic_shared[];  // [STAGES]: A's tile, B's tile
    const unsigned tiles_n = (n + BN - 1) / BN;
    unsigned row = blockIdx.x / tiles_n, column = blockIdx.x % tiles_n;
    if (GROUP > 1) {
        const unsigned first = blockIdx.x / (GROUP * tiles_n) * GROUP, in_group = blockIdx.x - first * tiles_n;
        const unsigned height = min((m + BM - 1) / BM - first, (unsigned)GROUP);
        row = first + in_group % height, column = in_group / height;
    }
    row *= BM, column *= BN;

    const unsigned warp = threadIdx.x / WARP;
    const unsigned ring = address_in_shared(dynamic_shared), stages = (k + BK - 1) / BK;
    const Product::FetchA fetch_a(a, m, k, lda, row);
    const Product::FetchB fetch_b(b, n, k, ldb, column);
    const bool whole = fetch_a.aligned && fetch_b.aligned && (TRANS_A ? m : k) % VECTOR == 0 && (TRANS_B ? k : n) % VECTOR == 0;
    Product product;
    if (whole) product.multiply<true>(fetch_a, fetch_b, ring, stages, warp);
    else product.multiply<false>(fetch_a, fetch_b, ring, stages, warp);

    product.store(c, m, n, ldc, row + warp / WARPS_N * WM, column + warp % WARPS_N * WN, epilogue);
}
