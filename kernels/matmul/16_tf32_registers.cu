// Idea: tf32's instruction reads shared memory only along k, but registers in any order: B goes through registers, as it lies.
// Formula: C = f(alpha A B + beta C); tf32 in, f32 out; row-major, tiles of BM x BN, computed as C^T = B^T A^T.
// Since the last rung: no copy transposes B; its tile is the operand in registers, read there while the last stage is multiplied.
// Needs: as 14_overlapped_store, but B as it is multiplied, [k][n], not transposed.
// Expect: what the copy took is saved, and the rest takes as long: reading fragments hides behind the tensor cores.
#define B_IN_REGISTERS 1
#include "matmul/persistent.cuh"

static_assert(IN == TYPE_F32 && OUT == TYPE_F32, "16-bit types are read in either order without this");
static_assert(!TRANS_A && !TRANS_B, "A runs along k and B does not");

constexpr int BOX_BYTES = BK * ROW_BYTES;  // Of B's tile: [BK][32 columns].
constexpr int OUT_ROWS = 32, OUT_BYTES = OUT_ROWS * ROW_BYTES;  // Of C on its way out: a box of [32][32 columns].
static_assert(DYNAMIC_SHARED_BYTES >= STAGES * STAGE_BYTES + CONSUMERS * 4 * OUT_BYTES + 1024, "two pairs of boxes for each consumer");

// The multiplying instruction, d[64][BM] += a[64][8] b[8][BM], where d is a part of C^T. A thread has the elements
//   d[4 j + 2 h + i]: row 8 j + 2 (lane % 4) + i of C, in the column that row 16 warp + lane / 4 + 8 h of the instruction stands for
// and brings of those two columns a[h] at k = lane % 4, and a[2 + h] at k = lane % 4 + 4.
// A0 to P: the numbers of the operands behind the sums.
#define MULTIPLY_TURNED(SHAPE, SUMS, BOUND, A0, A1, A2, A3, B, P) \
    __device__ __forceinline__ void multiply_step(float (&d)[BM / 2], const unsigned (&a)[4], unsigned long long b, int add) { \
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #P ", 0;\nwgmma.mma_async.sync.aligned." SHAPE ".f32.tf32.tf32 {" SUMS \
                     "}, {%" #A0 ", %" #A1 ", %" #A2 ", %" #A3 "}, %" #B ", p, 1, 1;\n}\n" \
                     : BOUND : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add)); \
    }
#if BM == 64
MULTIPLY_TURNED("m64n64k8", SUMS_32, D_32(0), 32, 33, 34, 35, 36, 37)
#elif BM == 128
MULTIPLY_TURNED("m64n128k8", SUMS_64, D_64(0), 64, 65, 66, 67, 68, 69)
#else
static_assert(BM == 256, "the instructions that are written down here");
MULTIPLY_TURNED("m64n256k8", SUMS_128, D_128(0), 128, 129, 130, 131, 132, 133)
#endif

// Which of its warpgroup's columns a lane has, this one (h = 0) and the next (h = 1): any order will do that is the same for all k.
// With this one the 16 lanes that are served together, eight bytes each, find all banks. Piece p of row r is at p ^ (r % 8), which
// changes bits 0 and 1 where they read B's tile, at rows lane % 4, and bits 1 and 2 where they write C's, at rows 2 (lane % 4). Their
// two pieces differ in bits 0 and 2, so that they meet nowhere.
__device__ __forceinline__ unsigned lane_piece() {
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    return (warp % 2 * 2 + lane / 16) ^ (lane / 8 % 2 * 5);
}
__device__ __forceinline__ unsigned lane_box() { return threadIdx.x / 64 % 2; }
__device__ __forceinline__ unsigned lane_column() { return lane_box() * 32 + lane_piece() * 4 + threadIdx.x / 4 % 2 * 2; }

// Where that is in row `row` of its box, in bytes.
__device__ __forceinline__ unsigned lane_at(unsigned row) {
    return row * ROW_BYTES + (lane_piece() ^ row % 8) * 16 + threadIdx.x / 4 % 2 * 8;
}

// What a thread brings of a stage.
struct Fragments {
    unsigned a[K_STEPS][4];

    // `from`: where this lane finds its two columns at k = lane % 4.
    __device__ __forceinline__ void load(unsigned from) {
        const unsigned behind = (from ^ 64) + 4 * ROW_BYTES;  // At k + 4.
#pragma unroll
        for (int s = 0; s < K_STEPS; ++s) {
            const auto pair = [&](int i, unsigned at) {
                asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];"
                             : "=r"(a[s][i]), "=r"(a[s][i + 1]) : "r"(at + s * 8 * ROW_BYTES) : "memory");
            };
            pair(0, from), pair(2, behind);
        }
    }
};

// The 64 x BM sums of a warpgroup, spread over its threads.
struct Turned {
    float d[BM / 2];

    // A consumer's turn: the sums over `blocks` stages, at least one. `a` describes A's tile in the first stage of the ring, `b` is
    // where this lane begins to read B's there.
    __device__ __forceinline__ void multiply(const Barriers& barriers, Ring& ring, unsigned a, unsigned b, unsigned blocks) {
        // While an instruction runs, nobody may touch its registers: the next stage goes to others.
        Fragments even, odd;
        unsigned last = 0;
        const auto fetch = [&](Fragments& fragments) {
            wait_phase(barriers.full + ring.stage * 8, ring.parity);
            fragments.load(b + ring.stage * STAGE_BYTES);
        };
        const auto turn = [&](const Fragments& now, Fragments& next, unsigned block) {
            const unsigned tile = a + ring.stage * (STAGE_BYTES / 16);
            asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
            for (int s = 0; s < K_STEPS; ++s) multiply_step(d, now.a[s], whole_descriptor(tile + s * 2), s > 0 || block > 0);
            asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
            // This stage stays under way; the registers and the room of the one before it are free: four warps multiply as one, so all
            // of them had read their fragments.
            asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
            if (block > 0) barriers.release(last);
            last = ring.stage;
            ring.advance();
            if (block + 1 < blocks) fetch(next);
        };
        fetch(even);
        for (unsigned block = 0; block < blocks; block += 2) {
            turn(even, odd, block);
            if (block + 1 < blocks) turn(odd, even, block + 1);
        }
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
        barriers.release(last);
        // Keeps the compiler from touching the sums earlier than here.
#pragma unroll
        for (int i = 0; i < BM / 2; ++i) asm volatile("" : "+f"(d[i])::"memory");
    }

    // Writes rows from OUT_ROWS * turn on into a warpgroup's two boxes. `to`: where this lane's element of row 2 (lane % 4) is.
    template <bool PLAIN>
    __device__ __forceinline__ void write(unsigned to, int turn, const Finish& finish, const float* c, unsigned row, unsigned column,
                                          unsigned m, unsigned n, unsigned ldc) const {
#pragma unroll
        for (int p = 0; p < OUT_ROWS / 8; ++p) {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const int j = turn * (OUT_ROWS / 8) + p;
                const unsigned r = row + 8 * j + threadIdx.x % 4 * 2 + i;
                const auto value = [&](int h) {
                    const float sum = d[4 * j + 2 * h + i];
                    // Past the edge the last column's bias will do.
                    if (PLAIN) return finish.plain(sum, FINISH == FINISH_NONE ? column : min(column + h, n - 1));
                    return finish.guarded(sum, c, r, column + h, m, n, ldc);
                };
                // The next row's pieces have the last bit of their place turned.
                asm volatile("st.shared.v2.f32 [%0], {%1, %2};"
                             ::"r"((i ? (to ^ 16) + ROW_BYTES : to) + p * 8 * ROW_BYTES), "f"(value(0)), "f"(value(1)) : "memory");
            }
        }
    }
};

// Where TMA cannot: a warp a row of both boxes.
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

extern "C" __global__ void __launch_bounds__(THREADS, 1)
gemm(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b, const __grid_constant__ TensorMap map_c,
     unsigned by_copy /* 1: map_c describes C, whose rows and edge are at multiples of 16 bytes */, float* __restrict__ c /* [m][ldc] */,
     unsigned m, unsigned n, unsigned k, unsigned ldc, Finish finish) {
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
        const bool leader = threadIdx.x % WARPGROUP == 0, plain = finish.is_plain();
        const unsigned a = descriptor(base, true), t = threadIdx.x % 4;
        const unsigned b = base + A_BYTES + (group * 2 + lane_box()) * BOX_BYTES + lane_at(t);
        const unsigned buffers = base + STAGES * STAGE_BYTES + group * 4 * OUT_BYTES;
        const unsigned to = buffers + lane_box() * OUT_BYTES + lane_at(2 * t);
        Turned sums;
        for (unsigned tile = blockIdx.x / CLUSTER; tile < tiles.count(); tile += gridDim.x / CLUSTER) {
            tiles.at(tile, rank, row, column);
            column += group * 64;
            sums.multiply(barriers, ring, a, b, k_blocks);
#pragma unroll
            for (int turn = 0; turn < BM / OUT_ROWS; ++turn) {
                const unsigned offset = turn % 2 * 2 * OUT_BYTES, first = row + turn * OUT_ROWS;
                // The stores before the last have been read: their buffer is this one.
                if (by_copy && leader) store_wait_read<1>();
                warpgroup_sync(1 + group);
                if (plain) sums.write<true>(to + offset, turn, finish, c, row, column + lane_column(), m, n, ldc);
                else sums.write<false>(to + offset, turn, finish, c, row, column + lane_column(), m, n, ldc);
                if (by_copy) fence_for_copies();
                warpgroup_sync(1 + group);
                if (!by_copy) {
                    copy_rows(c, buffers + offset, first, column, m, n, ldc);
                } else if (leader) {
                    store_box(&map_c, buffers + offset, column, first);
                    store_box(&map_c, buffers + offset + OUT_BYTES, column + 32, first);
                    store_commit();
                }
            }
        }
        // The buffers are this block's until they have been read.
        if (leader) store_wait_read<0>();
    }
}
