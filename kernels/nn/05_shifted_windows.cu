// Idea: a tile of the image is copied to shared memory once, its border of zeros included, and each tap multiplies the same rows, shifted.
// Formula: y = f(x * w + b), or dx of dy with the window mirrored; strides 1, f16 or bf16 [n][h][w][c], f32 sums.
// Since the last rung: TMA copies boxes in place of gathered patches, wgmma in place of mma.sync; weights stay in shared memory.
// Needs: sm_90a; channels and columns multiples of 8, padded to ROW_BYTES and BN; all weights of BN columns and two tiles in shared memory.
// Expect: bound by DRAM or tensor cores: L2 is read once per image, twice at tile edges, not once per tap; sums of padding columns are wasted.
#include "launch.cuh"
#include "matmul/gemm.cuh"
#include "matmul/tma.cuh"
#include "matmul/wgmma.cuh"
#include "nn/maxima.cuh"

// The possible values of PASS.
#define FORWARD 0
#define INPUT_GRADIENT 1
// BLOCKS: each instruction covers 8 x 8 pixels. Without BLOCKS, it covers 64 consecutive positions along the rows, including padding.
// POOL: the kernel stores the maxima of 2 x 2 sums instead of the sums.
static_assert(!POOL || (BLOCKS && PASS == FORWARD), "a thread has both rows of a window of blocks, its neighbour the other column");

constexpr int PARTS = BM / 64, CONSUMERS = THREADS / WARPGROUP - 1, LANES = ROW_BYTES / 2, K_STEPS = ROW_BYTES / 32;
constexpr int MOST_STAGES = 8;
static_assert(BM % 64 == 0, "an instruction multiplies 64 rows");
static_assert(THREADS % WARPGROUP == 0 && CONSUMERS >= 1, "the last warpgroup copies");
static_assert(ROW_BYTES == 64 || ROW_BYTES == 128, "the swizzles of 64 and 128 bytes");
static_assert(BN == 32 || BN == 64 || BN == 128, "the wgmma shapes defined below");

// A tile of weights is [BN][channels of a row] for y, and [channels of a row][BN] for dx, in boxes of 128 bytes at most.
constexpr int WEIGHT_ROW_BYTES = PASS == FORWARD ? ROW_BYTES : BN == 32 ? 64 : 128;
constexpr int WEIGHT_BYTES = BN * ROW_BYTES, WEIGHT_BOX = PASS == FORWARD ? WEIGHT_BYTES : LANES * WEIGHT_ROW_BYTES;
constexpr int WEIGHT_STEP = PASS == FORWARD ? 2 : 16 * WEIGHT_ROW_BYTES / 16;

struct Windows {
    unsigned images, tiles_of_image, rows;        // number of images; tiles per image; rows of the result per tile
    unsigned tiles_across, across;                // BLOCKS: tiles in a row of the image; blocks in a row of a tile
    unsigned height, width, columns;              // sizes of the result; `columns` is its number of channels
    unsigned channels;                            // channels of an input pixel
    unsigned kh, kw, pitch;                       // window size; columns of a tile in shared memory, kw - 1 more than it has windows
    unsigned blocks;                              // rows of ROW_BYTES that hold a pixel's channels
    unsigned stages, box_bytes, block_bytes;      // stages; size of a TMA box; the space that it takes in shared memory
    unsigned consumers;                           // warpgroups that multiply, at most one per stage
    int top, left;                                // position in the image at which the first window begins
    unsigned relu;
};

// In the inline PTX, the numbers of the operands after the sums depend on the number of sums.
#if BN == 32
#define WINDOW_SUMS SUMS_16
#define WINDOW_BOUND D_16(0)
#define MULTIPLY_WINDOW(TYPES) \
    MULTIPLY("m64n32k16", TYPES, WINDOW_SUMS, 16, 17, 18, ", %19, %20", WINDOW_BOUND, , "n"(0), "n"(PASS != FORWARD))
#elif BN == 64
#define WINDOW_SUMS SUMS_32
#define WINDOW_BOUND D_32(0)
#define MULTIPLY_WINDOW(TYPES) \
    MULTIPLY("m64n64k16", TYPES, WINDOW_SUMS, 32, 33, 34, ", %35, %36", WINDOW_BOUND, , "n"(0), "n"(PASS != FORWARD))
#else
#define WINDOW_SUMS SUMS_64
#define WINDOW_BOUND D_64(0)
#define MULTIPLY_WINDOW(TYPES) \
    MULTIPLY("m64n128k16", TYPES, WINDOW_SUMS, 64, 65, 66, ", %67, %68", WINDOW_BOUND, , "n"(0), "n"(PASS != FORWARD))
#endif
__device__ __forceinline__ void multiply(float (&d)[BN / 2], unsigned long long a, unsigned long long b, int add) {
    if constexpr (IN == TYPE_F16) MULTIPLY_WINDOW("f32.f16.f16");
    else MULTIPLY_WINDOW("f32.bf16.bf16");
}

// Sets a descriptor's stride between groups of eight rows to `bytes`. The hardware still computes the swizzle from the address.
__device__ __forceinline__ unsigned long long with_stride(unsigned long long descriptor, unsigned bytes) {
    return (descriptor & ~(0x3fffull << 32)) | (unsigned long long)(bytes / 16) << 32;
}

// The first column that this block computes.
__device__ __forceinline__ unsigned first_column(const Windows& g) { return blockIdx.x % ((g.columns + BN - 1) / BN) * BN; }

struct Tile {
    unsigned image, row, x;
    __device__ __forceinline__ Tile(const Windows& g, unsigned index) : image(index / g.tiles_of_image) {
        const unsigned rest = index % g.tiles_of_image, down = BLOCKS ? rest / g.tiles_across : rest;
        row = down * g.rows, x = BLOCKS ? (rest - down * g.tiles_across) * g.across * 8 : 0;
    }
    // The index of the tile's first element in the result, which has one pixel for each `divisor` x `divisor` pixels of the image.
    __device__ __forceinline__ size_t first(const Windows& g, unsigned divisor) const {
        return ((size_t)image * (g.height / divisor) + row / divisor) * (g.width / divisor) * g.columns + x / divisor * g.columns;
    }
};

__device__ __forceinline__ void copy_weights(const Windows& g, const TensorMap* map, unsigned to, unsigned column, unsigned barrier) {
    const unsigned taps = g.kh * g.kw;
    expect_bytes(barrier, taps * g.blocks * WEIGHT_BYTES);
    for (unsigned tap = 0; tap < taps; ++tap) {
        for (unsigned block = 0; block < g.blocks; ++block, to += WEIGHT_BYTES) {
            if constexpr (PASS == FORWARD) {
                // A pixel's last channel is followed by zeros in the image tile, so the weights loaded for those channels have no effect.
                load_box(to, map, tap * g.channels + block * LANES, column, barrier);
            } else {
                // dx is the convolution of dy with the mirrored window.
                for (int part = 0; part < WEIGHT_BYTES / WEIGHT_BOX; ++part) {
                    const unsigned first = (taps - 1 - tap) * g.columns + column + part * (WEIGHT_ROW_BYTES / 2);
                    load_box(to + part * WEIGHT_BOX, map, first, block * LANES, barrier);
                }
            }
        }
    }
}

// The position of one of a thread's sums in its tile; advance() moves it to the next sum.
struct Position {
    unsigned row, x;
    __device__ __forceinline__ Position(unsigned position, unsigned pitch) : row(position / pitch), x(position % pitch) {}
    __device__ __forceinline__ void advance(const Position& by, unsigned pitch) {
        row += by.row, x += by.x;
        if (x >= pitch) x -= pitch, ++row;
    }
};

// The sums of BM positions of a tile. Padding columns and pixels past the image have sums too, which are not stored.
struct Sums {
    static constexpr int GROUPS = BN / 32, UNITS = PARTS * GROUPS;  // a group is 32 columns: four lanes store eight adjacent columns each
    float d[PARTS][BN / 2];
    unsigned zeros[(UNITS * 2 + 3) / 4];                  // one bit per element: set if its mask is 0 or less
    float add[PASS == FORWARD ? GROUPS : 1][4][2] = {};  // the bias of the thread's columns
#if BLOCKS
    __device__ __forceinline__ Sums(const Windows& g, const float* bias, unsigned column) { load_bias(g, bias, column); }
#else
    Position first, by_8, by_56;  // the first sum's position, and the steps to the next: its sums are 8 rows apart, in blocks of 64
    __device__ __forceinline__ Sums(const Windows& g, const float* bias, unsigned column)
        : first(threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4, g.pitch), by_8(8, g.pitch), by_56(56, g.pitch) {
        load_bias(g, bias, column);
    }
#endif
    __device__ __forceinline__ void load_bias(const Windows& g, const float* bias, unsigned column) {
        if constexpr (PASS == FORWARD) {
            if (!bias) return;
#pragma unroll
            for (int j = 0; j < GROUPS * 8; ++j) {
                const unsigned at = column + j / 2 * 8 + threadIdx.x % 4 * 2 + j % 2;
                if (at < g.columns) add[j / 8][j % 8 / 2][j % 2] = bias[at];
            }
        }
    }

    // True if the lane's eight columns of a group are in the result. A pooling kernel has no register left for this, so its columns fill all groups.
    __device__ __forceinline__ static bool has(const Windows& g, int group) {
        return POOL || first_column(g) + group * 32 + threadIdx.x % 4 * 8 < g.columns;
    }

    // Calls work(part, row, x) for each block of 8 x 8 pixels of a tile; (row, x) is the block's first pixel.
    template <class Work> __device__ __forceinline__ static void each_block(const Windows& g, Work work) {
        unsigned row = 0, x = 0;
#pragma unroll
        for (int p = 0; p < PARTS; ++p) {
            work(p, row, x);
            x += 8;
            if (x == g.across * 8) x = 0, row += 8;
        }
    }

    // Calls work(i, inside, at) for each of the thread's positions: `inside` is true within tile and image, `at` is the index in the tile's result.
    template <class Work> __device__ __forceinline__ void each_position(const Windows& g, const Tile& tile, Work work) const {
        const auto at = [&](int i, unsigned row, unsigned x) {
            const bool inside = row < g.rows && tile.row + row < g.height && tile.x + x < g.width;
            work(i, inside, (row * g.width + x) * g.columns);
        };
#if BLOCKS
        const unsigned row = threadIdx.x / 32 % 4 * 2, x = threadIdx.x % 32 / 4;
        each_block(g, [&](int p, unsigned block_row, unsigned block_x) {
            at(p * 2, block_row + row, block_x + x), at(p * 2 + 1, block_row + row + 1, block_x + x);
        });
#else
        Position p = first;
#pragma unroll
        for (int i = 0; i < PARTS * 2; ++i) {
            at(i, p.row, p.x);
            p.advance(i % 2 ? by_56 : by_8, g.pitch);
        }
#endif
    }

    __device__ __forceinline__ void multiply_windows(const Windows& g, unsigned images, unsigned weights) {
        // Where the windows of each part start in shared memory, in units of 16 bytes as in descriptors.
        unsigned starts[PARTS];
#if BLOCKS
        each_block(g, [&](int p, unsigned row, unsigned x) { starts[p] = (row * g.pitch + x) * (ROW_BYTES / 16); });
#else
#pragma unroll
        for (int p = 0; p < PARTS; ++p) starts[p] = p * (64 * ROW_BYTES / 16);
#endif
        int add = 0;
        for (unsigned i = 0; i < g.kh; ++i) {
            for (unsigned j = 0; j < g.kw; ++j) {
                for (unsigned block = 0; block < g.blocks; ++block, weights += WEIGHT_BYTES) {
                    auto a = describe<ROW_BYTES, 16>(images + block * g.block_bytes + (i * g.pitch + j) * ROW_BYTES);
                    // A block has eight windows of one image row, then eight of the next image row.
                    if (BLOCKS) a = with_stride(a, g.pitch * ROW_BYTES);
                    const auto b = describe<WEIGHT_ROW_BYTES, PASS == FORWARD ? 16 : WEIGHT_BOX>(weights);
                    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
                    for (int s = 0; s < K_STEPS; ++s) {
#pragma unroll
                        for (int p = 0; p < PARTS; ++p) multiply(d[p], a + starts[p] + s * 2, b + s * WEIGHT_STEP, add);
                        add = 1;
                    }
                    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
                }
            }
        }
    }

    // Reads the mask while the tensor cores multiply.
    __device__ __forceinline__ void read_mask(const Windows& g, const Tile& tile, const In* mask /* [rows][width][columns] */) {
        each_position(g, tile, [&](int i, bool inside, unsigned at) {
#pragma unroll
            for (int group = 0; group < GROUPS; ++group) {
                const int n = i * GROUPS + group;
                if (n % 4 == 0) zeros[n / 4] = 0;
                if (inside && has(g, group)) zeros[n / 4] |= zeros_of(mask + at + group * 32) << n % 4 * 8;
            }
        });
    }

    __device__ __forceinline__ void wait() {
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
        // Keeps the compiler from reading the sums before this point.
#pragma unroll
        for (int i = 0; i < PARTS * BN / 2; ++i) asm volatile("" : "+f"(d[i / (BN / 2)][i % (BN / 2)])::"memory");
    }

    // Packs the sums of one group of columns at position i into words, after bias and ReLU.
    __device__ __forceinline__ void words_of(unsigned (&words)[4], float least, int i, int group) const {
        const auto sum = [&](int j, int k) { return d[i / 2][(group * 4 + j) * 4 + i % 2 * 2 + k]; };
        activated_words(words, add[PASS == FORWARD ? group : 0], least, In{}, sum);
    }

    // The four lanes of a row exchange their pairs, so that each lane stores eight adjacent channels as 16 bytes.
    __device__ __forceinline__ void store(const Windows& g, const Tile& tile, bool masked, In* to /* [rows][width][columns] */) const {
        const float least = least_of(g.relu);
        each_position(g, tile, [&](int i, bool inside, unsigned at) {
#pragma unroll
            for (int group = 0; group < GROUPS; ++group) {
                unsigned words[4];
                words_of(words, least, i, group);
                transpose_in_four(words, threadIdx.x % 4);
                if (PASS == INPUT_GRADIENT && masked) clear_words(words, zeros[(i * GROUPS + group) / 4] >> (i * GROUPS + group) % 4 * 8);
                if (inside && has(g, group)) store_words(to + at + group * 32, words);
            }
        });
    }

#if POOL
    // Stores two units at a time: lanes that hold left columns store the first unit, the other lanes store the second.
    __device__ __forceinline__ void store_maxima(const Windows& g, const Tile& tile, In* to /* [rows / 2][width / 2][columns] */,
                                                 unsigned char* index /* as to, or null */) const {
        const float least = least_of(g.relu);
        const unsigned width = g.width / 2, height = g.height / 2, right = threadIdx.x / 4 % 2;
        unsigned rows[PARTS], columns[PARTS];
        each_block(g, [&](int p, unsigned row, unsigned x) {
            rows[p] = row / 2 + threadIdx.x / 32 % 4, columns[p] = x / 2 + threadIdx.x % 32 / 8;
        });
#pragma unroll
        for (int u = 0; u < UNITS; u += 2) {
            Maxima<In> maxima;
#pragma unroll
            for (int k = 0; k < 2; ++k) {
                const int unit = u + k < UNITS ? u + k : u;
                unsigned words[2][4];
#pragma unroll
                for (int h = 0; h < 2; ++h) words_of(words[h], least, unit / GROUPS * 2 + h, unit % GROUPS);
                maxima.rows(k, words[0], words[1]);
            }
            unsigned best[4], taps[2];
            maxima.columns(best, taps);
            constexpr int NEXT = GROUPS == 1;  // true if the second unit belongs to the next part
            const int p = u / GROUPS, next = p + NEXT < PARTS ? p + NEXT : p;
            const unsigned row = right ? rows[next] : rows[p], x = right ? columns[next] : columns[p];
            const bool is_there = u + 1 < UNITS || !right;
            const unsigned group = u % GROUPS + (NEXT ? 0 : right);
            if (is_there && has(g, group) && row < g.rows / 2 && tile.row / 2 + row < height && tile.x / 2 + x < width) {
                const unsigned at = (row * width + x) * g.columns + group * 32;
                store_words(to + at, best);
                if (index) store_taps(index + at, taps);
            }
        }
    }
#endif
};

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
shifted_windows(const __grid_constant__ TensorMap map_images, const __grid_constant__ TensorMap map_weights, Windows g,
                const float* __restrict__ bias /* [columns] or null */, const In* __restrict__ mask /* as to, or null */,
                In* __restrict__ to /* [images][height][width][columns]; POOL: half as high and wide */
#if POOL
                , unsigned char* __restrict__ index /* as to, or null */
#endif
) {
    MARK_BEGIN(shifted_windows);
    __shared__ __align__(8) unsigned long long full_barriers[MOST_STAGES], empty_barriers[MOST_STAGES], weights_barrier;
    const unsigned full = shared_address(full_barriers), empty = shared_address(empty_barriers);
    const unsigned there = shared_address(&weights_barrier), weights = aligned_shared();
    const unsigned tiles = weights + g.kh * g.kw * g.blocks * WEIGHT_BYTES, stage_bytes = g.blocks * g.block_bytes;
    const unsigned across = (g.columns + BN - 1) / BN, column = first_column(g);
    const unsigned first = blockIdx.x / across, step = gridDim.x / across, end = g.images * g.tiles_of_image;
    if (threadIdx.x == 0) {
        for (int s = 0; s < MOST_STAGES; ++s) barrier_init(&full_barriers[s], 1), barrier_init(&empty_barriers[s], 4);
        barrier_init(&weights_barrier, 1);
        barrier_init_done();
    }
    __syncthreads();
    wait_for_predecessor();

    const int group = warpgroup_index();
    if (group == CONSUMERS) {
        give_registers<PRODUCER_REGISTERS>();
        if (threadIdx.x % WARPGROUP != 0) return;
        copy_weights(g, &map_weights, weights, column, there);
        unsigned stage = 0, parity = 0;
        for (unsigned at = first; at < end; at += step) {
            const Tile tile(g, at);
            const unsigned barrier = full + stage * 8;
            MARK(wait);
            // In the first round every stage is empty, and this wait returns at once: the phase before the first counts as complete.
            wait_phase(empty + stage * 8, parity ^ 1);
            MARK(load);
            expect_bytes(barrier, g.blocks * g.box_bytes);
            for (unsigned block = 0; block < g.blocks; ++block) {
                load_box(tiles + stage * stage_bytes + block * g.block_bytes, &map_images, block * LANES, (int)tile.x + g.left,
                         (int)tile.row + g.top, tile.image, barrier);
            }
            if (++stage == g.stages) stage = 0, parity ^= 1;
        }
        let_successor_start();
        MARK(end);
        return;
    }
    if (group >= g.consumers) return;
    take_registers<CONSUMER_REGISTERS>();
    // The warpgroups take tiles in turn, so that one stores its tile while another multiplies.
    MARK(wait);
    wait_phase(there, 0);
    Sums sums(g, bias, column);
    unsigned count = group;
    for (unsigned at = first + group * step; at < end; at += g.consumers * step, count += g.consumers) {
        const unsigned stage = count % g.stages, parity = count / g.stages & 1;
        const Tile tile(g, at);
        const size_t from = tile.first(g, POOL ? 2 : 1) + column + threadIdx.x % 4 * 8;
        // The previous tile in this stage may belong to another warpgroup. Its phase has the opposite parity and must end first: before that, a
        // wait for this tile's phase would return at once.
        MARK(wait);
        wait_phase(empty + stage * 8, parity ^ 1);
        wait_phase(full + stage * 8, parity);
        MARK(multiply);
        sums.multiply_windows(g, tiles + stage * stage_bytes, weights);
        if (PASS == INPUT_GRADIENT && mask) sums.read_mask(g, tile, mask + from);
        sums.wait();
        MARK(store);
        if (threadIdx.x % 32 == 0) arrive(empty + stage * 8);
#if POOL
        sums.store_maxima(g, tile, to + from, index ? index + from : nullptr);
#else
        sums.store(g, tile, mask, to + from);
#endif
    }
    MARK(end);
}
