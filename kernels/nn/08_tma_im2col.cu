// Idea: the copy engine gathers the patches: in im2col mode TMA copies one tap of BM consecutive pixels, zeros past the border included.
// Formula: y = f(x * w + b), or dx of dy with the window mirrored; strides 1, f16 or bf16 [n][h][w][c], f32 sums.
// Since the last rung: weights pass through shared memory with the patches, so any number of channels fits, and a tile may span images.
// Needs: sm_90a; channels a multiple of 64, columns a multiple of 8.
// Expect: bound by tensor cores if a tile has 256 columns; bound by L2 with few columns, because every tap is read from L2 again.
#define TRANS_B (PASS == FORWARD)
#define FORWARD 0
#define INPUT_GRADIENT 1
#include "matmul/through_shared.cuh"
#include "nn/activate.cuh"

static_assert(sizeof(In) == 2, "TMA stores whole words of two elements");

struct Im2col {
    unsigned pixels;                 // pixels of the result, in all images
    unsigned height, width, columns; // sizes of the result; `columns` is its number of channels
    unsigned kh, kw;
    unsigned blocks;                 // blocks of BK channels in a pixel
    int top, left;                   // position in the image at which the first window begins
    unsigned relu;
};

// Copies BK channels of the pixels at tap (i, j) of BM consecutive windows. The first window begins at (w, h) of image n.
__device__ __forceinline__ void load_taps(unsigned to, const TensorMap* map, unsigned c, int w, int h, unsigned n, unsigned i, unsigned j,
                                          unsigned barrier) {
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], [%6], {%7, %8};"
                 ::"r"(to), "l"(map), "r"(c), "r"(w), "r"(h), "r"(n), "r"(barrier), "h"((unsigned short)j), "h"((unsigned short)i) : "memory");
}

// The producer's work for the result's tile at (row, column): loads all taps, BK channels at a time.
__device__ __forceinline__ void fill_taps(const Barriers& barriers, Ring& ring, unsigned base, const TensorMap* images, const TensorMap* weights,
                                          const Im2col& g, unsigned row, unsigned column, unsigned rank) {
    const unsigned image = row / (g.height * g.width), pixel = row % (g.height * g.width), taps = g.kh * g.kw;
    const int h = (int)(pixel / g.width) + g.top, w = (int)(pixel % g.width) + g.left;
    for (unsigned i = 0, tap = 0; i < g.kh; ++i) {
        for (unsigned j = 0; j < g.kw; ++j, ++tap) {
            for (unsigned block = 0; block < g.blocks; ++block) {
                const unsigned barrier = barriers.full + ring.stage * 8, to = base + ring.stage * STAGE_BYTES;
                MARK(wait);
                wait_phase(barriers.empty + ring.stage * 8, ring.parity ^ 1);
                MARK(load);
                expect_bytes(barrier, STAGE_BYTES);
                load_taps(to, images, block * BK, w, h, image, i, j, barrier);
                // dx is the convolution of dy with the mirrored window.
                if constexpr (PASS == FORWARD) load_b(to + A_BYTES, weights, column, (tap * g.blocks + block) * BK, barrier, rank);
                else load_b(to + A_BYTES, weights, (taps - 1 - tap) * g.columns + column, block * BK, barrier, rank);
                ring.advance();
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
tma_im2col(const __grid_constant__ TensorMap map_images, const __grid_constant__ TensorMap map_weights, const __grid_constant__ TensorMap map_to,
           Im2col g, const float* __restrict__ bias /* [columns] or null */, const In* __restrict__ mask /* as to, or null */,
           In* __restrict__ to /* [pixels][columns] */) {
    MARK_BEGIN(tma_im2col);
    wait_for_predecessor();
    __shared__ __align__(8) unsigned long long full_barriers[STAGES], empty_barriers[STAGES];
    const unsigned base = aligned_shared(), rank = rank_in_cluster(), k_blocks = g.kh * g.kw * g.blocks;
    const int group = warpgroup_index();
    const Tiles tiles(g.pixels, g.columns);
    if (threadIdx.x == 0) prefetch(&map_images), prefetch(&map_weights);
    const Barriers barriers(full_barriers, empty_barriers);
    unsigned row, column;
    Ring ring;

    if (group == CONSUMERS) {
        give_registers<PRODUCER_REGISTERS>();
        barriers.meet();
        if (threadIdx.x % WARPGROUP == 0) {
            for (unsigned tile = blockIdx.x / CLUSTER; tile < tiles.count(); tile += gridDim.x / CLUSTER) {
                tiles.at(tile, rank, row, column);
                fill_taps(barriers, ring, base, &map_images, &map_weights, g, row, column, rank);
            }
            let_successor_start();
            barriers.drain(ring);
            MARK(end);
        }
    } else {
        take_registers<CONSUMER_REGISTERS>();
        barriers.meet();
        const unsigned a = descriptor(base + group * CHUNK_BYTES, true), b = descriptor(base + A_BYTES, TRANS_B);
        const unsigned buffers = base + STAGES * STAGE_BYTES + group * 2 * CHUNK_BYTES, lane_at = lane_in(buffers);
        Sums sums;
        Packed packed;
        unsigned waiting = NO_TILE;
        const auto store_waiting = [&](int chunk) {
            store_packed(packed, waiting, chunk, &map_to, to, buffers, lane_at, 1 + group, g.pixels, g.columns, g.columns);
        };
        for (unsigned tile = blockIdx.x / CLUSTER; tile < tiles.count(); tile += gridDim.x / CLUSTER) {
            // While the first stages are multiplied, the previous tile is stored, one chunk per stage.
            barriers.multiply_and<CHUNKS>(ring, a, b, k_blocks, sums, [&](int chunk) {
                if (waiting != NO_TILE) store_waiting(chunk);
            });
            tiles.at(tile, rank, row, column);
            row += group * 64, waiting = packed_position(row, column);
            MARK(store);
            const unsigned lane = threadIdx.x % 32, first_row = row + threadIdx.x / 32 % 4 * 16 + lane / 4, first = column + lane % 4 * 2;
            // The lane's first elements of mask and bias, if these exist. The number of columns is even, so both elements of a pair are inside, or neither.
            const In* from = mask + (size_t)first_row * g.columns + first;
            const float* added = bias + first;
            packed.take([&](int j, int h, int i) {
                const bool is_inside = first + j * 8 < g.columns;
                const float sum = sums.d[4 * j + 2 * h + i];
                if constexpr (PASS == FORWARD) return activate(sum, bias && is_inside ? added[j * 8 + i] : 0.0f, least_of(g.relu));
                const bool is_masked = mask && is_inside && first_row + h * 8 < g.pixels && to_float(from[h * 8 * g.columns + j * 8 + i]) <= 0.0f;
                return is_masked ? 0.0f : sum;
            });
        }
        if (waiting != NO_TILE) {
#pragma unroll
            for (int chunk = 0; chunk < CHUNKS; ++chunk) store_waiting(chunk);
        }
        // Shared memory must stay allocated until the last stores have read it.
        if (threadIdx.x % WARPGROUP == 0) store_wait_read<0>();
        MARK(end);
    }
}
