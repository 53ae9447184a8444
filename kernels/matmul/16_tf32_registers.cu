// Idea: wgmma reads tf32 from shared memory only along k, but registers can be filled in any order: B goes through registers.
// Formula: C = f(alpha A B + beta C); tf32 in, f32 out; row-major, tiles of BM x BN, computed as C^T = B^T A^T.
// Since the last rung: no copy transposes B; its tile is the register operand, loaded while the previous stage is multiplied.
// Needs: the same as 14_overlapped_store, but B not transposed, that is [k][n], and f32 output.
// Expect: most of the time for the copy is saved: fragment loads are largely hidden behind the tensor cores.
#define B_IN_REGISTERS 1
#include "matmul/persistent.cuh"

static_assert(IN == TYPE_F32 && OUT == TYPE_F32, "16-bit types need no registers: wgmma reads them in either order");
static_assert(!TRANS_A && !TRANS_B, "A is contiguous along k, B along n");

constexpr int BOX_BYTES = BK * ROW_BYTES;  // A box of B's tile: [BK][32 columns].
constexpr int OUT_ROWS = 32, OUT_BYTES = OUT_ROWS * ROW_BYTES;  // A box of C to be stored: [32][32 columns].
static_assert(DYNAMIC_SHARED_BYTES >= STAGES * STAGE_BYTES + CONSUMERS * 4 * OUT_BYTES + 1024, "two pairs of boxes for each consumer");

// wgmma: d[64][BM] += a[64][8] b[8][BM], where d is a part of C^T. A thread holds the elements
//   d[4 j + 2 h + i]: row 8 j + 2 (lane % 4) + i of C, in the column that is row 16 warp + lane / 4 + 8 h of the instruction
// and provides, for those two columns, a[h] at k = lane % 4, and a[2 + h] at k = lane % 4 + 4.
// A0 to P are the numbers of the operands after the sums.
#define MULTIPLY_TRANSPOSED(SHAPE, SUMS, BOUND, A0, A1, A2, A3, B, P) \
    __device__ __forceinline__ void multiply_step(float (&d)[BM / 2], const unsigned (&a)[4], unsigned long long b, int add) { \
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #P ", 0;\nwgmma.mma_async.sync.aligned." SHAPE ".f32.tf32.tf32 {" SUMS \
                     "}, {%" #A0 ", %" #A1 ", %" #A2 ", %" #A3 "}, %" #B ", p, 1, 1;\n}\n" \
                     : BOUND : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add)); \
    }
#if BM == 64
MULTIPLY_TRANSPOSED("m64n64k8", SUMS_32, D_32(0), 32, 33, 34, 35, 36, 37)
#elif BM == 128
MULTIPLY_TRANSPOSED("m64n128k8", SUMS_64, D_64(0), 64, 65, 66, 67, 68, 69)
#else
static_assert(BM == 256, "the wgmma shapes defined here");
MULTIPLY_TRANSPOSED("m64n256k8", SUMS_128, D_128(0), 128, 129, 130, 131, 132, 133)
#endif

// A lane holds two columns of its warpgroup: lane_column() (h = 0) and the next (h = 1). Any assignment works that is the same for all
// k; with this one the 16 lanes that are served together, eight bytes each, use all banks. Piece p of row r is at p ^ (r % 8), which
// changes bits 0 and 1 when lanes read B's tile, in rows lane % 4, and bits 1 and 2 when they write C's tile, in rows 2 (lane % 4). The
// lanes' two pieces differ in bits 0 and 2, so that they never conflict.
__device__ __forceinline__ unsigned lane_piece() {
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    return (warp % 2 * 2 + lane / 16) ^ (lane / 8 % 2 * 5);
}
__device__ __forceinline__ unsigned lane_box() { return threadIdx.x / 64 % 2; }
__device__ __forceinline__ unsigned lane_column() { return lane_box() * 32 + lane_piece() * 4 + threadIdx.x / 4 % 2 * 2; }

// Returns the byte offset of this lane's two columns in row `row` of their box.
__device__ __forceinline__ unsigned lane_at(unsigned row) {
    return row * ROW_BYTES + (lane_piece() ^ row % 8) * 16 + threadIdx.x / 4 % 2 * 8;
}

// A thread's register operands for a stage.
struct Fragments {
    unsigned a[K_STEPS][4];

    // `from` is the address of this lane's two columns at k = lane % 4.
    __device__ __forceinline__ void load(unsigned from) {
        const unsigned at_k4 = (from ^ 64) + 4 * ROW_BYTES;  // Address of the same two columns at k + 4.
#pragma unroll
        for (int s = 0; s < K_STEPS; ++s) {
            const auto pair = [&](int i, unsigned at) {
                asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];"
                             : "=r"(a[s][i]), "=r"(a[s][i + 1]) : "r"(at + s * 8 * ROW_BYTES) : "memory");
            };
            pair(0, from), pair(2, at_k4);
        }
    }
};

// The 64 x BM sums of a warpgroup, a part of C^T, distributed over its threads.
struct TransposedSums {
    float d[BM / 2];

    // Runs a consumer's loop, which sums over `blocks` stages (at least one). `a` is the descriptor of A's tile in the ring's first stage, `b`
    // the address of this lane's first elements of B's tile there.
    __device__ __forceinline__ void multiply(const Barriers& barriers, Ring& ring, unsigned a, unsigned b, unsigned blocks) {
        // The registers of a wgmma in flight must not change, so the next stage is loaded into a second set.
        Fragments even, odd;
        unsigned last = 0;
        const auto fetch = [&](Fragments& fragments) {
            MARK(wait);
            wait_phase(barriers.full + ring.stage * 8, ring.parity);
            MARK(multiply);
            fragments.load(b + ring.stage * STAGE_BYTES);
        };
        const auto multiply_stage = [&](const Fragments& now, Fragments& next, unsigned block) {
            const unsigned tile = a + ring.stage * (STAGE_BYTES / 16);
            asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
            for (int s = 0; s < K_STEPS; ++s) multiply_step(d, now.a[s], whole_descriptor(tile + s * 2), s > 0 || block > 0);
            asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
            // This stage stays in flight; the registers and shared memory of the previous stage are free. All four warps issue wgmma
            // together, so all four had loaded their fragments.
            asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
            if (block > 0) barriers.release(last);
            last = ring.stage;
            ring.advance();
            if (block + 1 < blocks) fetch(next);
        };
        fetch(even);
        for (unsigned block = 0; block < blocks; block += 2) {
            multiply_stage(even, odd, block);
            if (block + 1 < blocks) multiply_stage(odd, even, block + 1);
        }
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
        barriers.release(last);
        // Keeps the compiler from moving reads of the sums before this point.
#pragma unroll
        for (int i = 0; i < BM / 2; ++i) asm volatile("" : "+f"(d[i])::"memory");
    }

    // Writes OUT_ROWS rows, starting at OUT_ROWS * part, into a warpgroup's two boxes. `to` is the address of this lane's element of row 2 (lane % 4).
    template <bool PLAIN>
    __device__ __forceinline__ void write(unsigned to, int part, const Epilogue& epilogue, const float* c, unsigned row, unsigned column,
                                          unsigned m, unsigned n, unsigned ldc) const {
#pragma unroll
        for (int p = 0; p < OUT_ROWS / 8; ++p) {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const int j = part * (OUT_ROWS / 8) + p;
                const unsigned r = row + 8 * j + threadIdx.x % 4 * 2 + i;
                const auto value = [&](int h) {
                    const float sum = d[4 * j + 2 * h + i];
                    // Past the edge of C any bias will do, so the bias of the last column is read.
                    if (PLAIN) return epilogue.plain(sum, Epilogue::HAS_BIAS ? min(column + h, n - 1) : column);
                    return epilogue.guarded(sum, c, r, column + h, m, n, ldc);
                };
                // The swizzle of the next row differs in the lowest bit of the piece.
                asm volatile("st.shared.v2.f32 [%0], {%1, %2};"
                             ::"r"((i ? (to ^ 16) + ROW_BYTES : to) + p * 8 * ROW_BYTES), "f"(value(0)), "f"(value(1)) : "memory");
            }
        }
    }
};

// Stores both boxes if TMA cannot store them: one warp per row.
__device__ __forceinline__ void copy_rows(float* __restrict__ c /* [m][ldc] */, unsigned from, unsigned row, unsigned column, unsigned m,
                                          unsigned n, unsigned ldc) {
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
#pragma unroll 4
    for (unsigned r = warp; r < OUT_ROWS; r += 4) {
        if (row + r >= m) break;
        const unsigned at = from + r * ROW_BYTES + (lane / 4 ^ r % 8) * 16 + lane % 4 * 4;
#pragma unroll
        for (int box = 0; box < 2; ++box) {
            float v;
            asm volatile("ld.shared.f32 %0, [%1];" : "=f"(v) : "r"(at + box * OUT_BYTES) : "memory");
            const unsigned to = column + box * 32 + lane;
            if (to < n) c[(size_t)(row + r) * ldc + to] = v;
        }
    }
}

static_assert(BM / OUT_ROWS % 2 == 0, "the two buffers alternate from tile to tile");

extern "C" __global__ void __launch_bounds__(THREADS, 1)
gemm(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b, const __grid_constant__ TensorMap map_c,
     unsigned by_copy /* 1: map_c describes C, whose rows and edge are at multiples of 16 bytes */, float* __restrict__ c /* [m][ldc] */,
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

    if (group == CONSUMERS) {
        give_registers<PRODUCER_REGISTERS>();
        // The consumers' stores come after these loads, so this wait covers the stores too.
        wait_for_predecessor();
        barriers.meet();
        if (threadIdx.x % WARPGROUP == 0) {
            for (unsigned tile = blockIdx.x / CLUSTER; tile < tiles.count(); tile += gridDim.x / CLUSTER) {
                tiles.at(tile, rank, row, column);
                barriers.fill(ring, base, &map_a, &map_b, row, column, 0, k_blocks, rank);
            }
            let_successor_start();
            barriers.drain(ring);
            MARK(end);
        }
    } else {
        take_registers<CONSUMER_REGISTERS>();
        barriers.meet();
        const bool leader = threadIdx.x % WARPGROUP == 0, plain = epilogue.is_plain();
        const unsigned a = descriptor(base, true), t = threadIdx.x % 4;
        const unsigned b = base + A_BYTES + (group * 2 + lane_box()) * BOX_BYTES + lane_at(t);
        const unsigned buffers = base + STAGES * STAGE_BYTES + group * 4 * OUT_BYTES;
        const unsigned to = buffers + lane_box() * OUT_BYTES + lane_at(2 * t);
        TransposedSums sums;
        for (unsigned tile = blockIdx.x / CLUSTER; tile < tiles.count(); tile += gridDim.x / CLUSTER) {
            tiles.at(tile, rank, row, column);
            column += group * 64;
            sums.multiply(barriers, ring, a, b, k_blocks);
#pragma unroll
            for (int part = 0; part < BM / OUT_ROWS; ++part) {
                const unsigned offset = part % 2 * 2 * OUT_BYTES, first = row + part * OUT_ROWS;
                // These boxes may still be read by the stores before the last one.
                send_through<1>(
                    by_copy, 1 + group,
                    [&] {
                        if (plain) sums.write<true>(to + offset, part, epilogue, c, row, column + lane_column(), m, n, ldc);
                        else sums.write<false>(to + offset, part, epilogue, c, row, column + lane_column(), m, n, ldc);
                    },
                    [&] {
                        store_box(&map_c, buffers + offset, column, first);
                        store_box(&map_c, buffers + offset + OUT_BYTES, column + 32, first);
                    },
                    [&] { copy_rows(c, buffers + offset, first, column, m, n, ldc); });
            }
        }
        // Shared memory must stay allocated until the last TMA stores have read from it, so the block must not exit earlier.
        if (leader) store_wait_read<0>();
        MARK(end);
    }
}
