// Idea: the weight gradient from shifted tiles: a tile of dy is multiplied by the same tile of x for every tap, shifted one pixel further each time.
// Formula: dw[o][i][j][c] = sum over n, y, x of dy[n][y][x][o] x[n][y + i + top][x + j + left][c]; f16 or bf16 [n][h][w][c], f32 sums.
// Since the last rung: sums of ten taps stay in registers over all images; one instruction multiplies a row of taps, one pixel apart along n.
// Needs: sm_90a; strides of 1; channels and filters multiples of 8, padded to 32 CONSUMERS_N and 64 CONSUMERS_M.
// Expect: bound by DRAM, which delivers x and dy once, or by the tensor cores.
#include "launch.cuh"
#include "matmul/gemm.cuh"
#include "matmul/tma.cuh"
#include "matmul/wgmma.cuh"
#include "xray.cuh"

constexpr int CONSUMERS = CONSUMERS_M * CONSUMERS_N;  // warpgroups, each for 64 filters and 32 channels
constexpr int Y_ROW = 128, X_ROW = 64;                // bytes per position: 64 filters of dy, 32 channels of x
constexpr int N = 32 * TAPS_J, MOST_STAGES = 8;
static_assert(THREADS == (CONSUMERS + 1) * WARPGROUP, "the last warpgroup copies");

struct Gradient {
    unsigned images, tiles_of_image, rows;      // number of images; tiles per image; rows of y per tile
    unsigned filters, channels, kh, kw;
    unsigned pitch;                             // positions per row of a tile: the columns of y and TAPS_J - 1 zeros
    unsigned steps;                             // steps per tile, each of 16 positions
    unsigned stages, y_box, y_room, x_box, x_room;  // stages; bytes of each TMA box and of its space in shared memory
    int top, left;                              // position in the image at which the first window begins
};

// The taps are adjacent along n, so the descriptor's step from tile to tile is one position.
#if TAPS_J == 1
#define TAPS_SUMS SUMS_16
#define TAPS_BOUND D_16(0)
#define MULTIPLY_TAPS(TYPES) MULTIPLY("m64n32k16", TYPES, TAPS_SUMS, 16, 17, 18, ", %19, %20", TAPS_BOUND, , "n"(1), "n"(1))
#elif TAPS_J == 3
#define TAPS_SUMS SUMS_48
#define TAPS_BOUND D_48(0)
#define MULTIPLY_TAPS(TYPES) MULTIPLY("m64n96k16", TYPES, TAPS_SUMS, 48, 49, 50, ", %51, %52", TAPS_BOUND, , "n"(1), "n"(1))
#elif TAPS_J == 5
#define TAPS_SUMS SUMS_80
#define TAPS_BOUND D_80(0)
#define MULTIPLY_TAPS(TYPES) MULTIPLY("m64n160k16", TYPES, TAPS_SUMS, 80, 81, 82, ", %83, %84", TAPS_BOUND, , "n"(1), "n"(1))
#else
#error "TAPS_J is 1, 3 or 5"
#endif
__device__ __forceinline__ void multiply(float (&d)[N / 2], unsigned long long a, unsigned long long b) {
    constexpr int add = 1;
    if constexpr (IN == TYPE_F16) MULTIPLY_TAPS("f32.f16.f16");
    else MULTIPLY_TAPS("f32.bf16.bf16");
}

// The bias gradient is computed as the gradient of one more tap, for which x is always 1.
#define BIAS_BOUND "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
#define MULTIPLY_ONES(TYPES) MULTIPLY("m64n8k16", TYPES, "%0, %1, %2, %3", 4, 5, 6, ", %7, %8", BIAS_BOUND, , "n"(1), "n"(0))
constexpr int ONES = 8 * 16;
__device__ __forceinline__ void multiply_ones(float (&d)[4], unsigned long long a, unsigned long long b) {
    constexpr int add = 1;
    if constexpr (IN == TYPE_F16) MULTIPLY_ONES("f32.f16.f16");
    else MULTIPLY_ONES("f32.bf16.bf16");
}
// The descriptor of an unswizzled tile of 8 x 16 elements: two matrices of 128 bytes.
__device__ __forceinline__ unsigned long long describe_ones(unsigned address) {
    return (unsigned long long)(128 / 16) << 32 | (128 / 16) << 16 | (address & 0x3ffff) >> 4;
}

// The work of a block: its first filter, channel and tap, and its share of the tiles.
struct Place {
    unsigned filter, channel, i, j, split, splits;
    __device__ __forceinline__ Place(const Gradient& g) {
        const unsigned across_m = (g.filters + 64 * CONSUMERS_M - 1) / (64 * CONSUMERS_M), across_n = (g.channels + 32 * CONSUMERS_N - 1) / (32 * CONSUMERS_N);
        const unsigned across_i = (g.kh + TAPS_I - 1) / TAPS_I, across_j = (g.kw + TAPS_J - 1) / TAPS_J;
        const unsigned across = across_m * across_n * across_i * across_j;
        unsigned at = blockIdx.x % across;
        split = blockIdx.x / across, splits = gridDim.x / across;
        filter = at % across_m * (64 * CONSUMERS_M), at /= across_m;
        channel = at % across_n * (32 * CONSUMERS_N), at /= across_n;
        i = at / across_j * TAPS_I, j = at % across_j * TAPS_J;
    }
};

__device__ __forceinline__ void fill_zeros(unsigned from, unsigned end) {
    for (unsigned at = from + threadIdx.x * 16; at < end; at += THREADS * 16) {
        asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(at), "r"(0) : "memory");
    }
}

struct Taps {
    float d[TAPS_I][N / 2] = {}, bias[4] = {};

    // Issues the wgmma instructions of one step of 16 positions, for every tap and the bias.
    __device__ __forceinline__ void multiply_step(unsigned long long a, unsigned long long b, unsigned down, unsigned long long ones) {
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int i = 0; i < TAPS_I; ++i) multiply(d[i], a, b + i * down);
        multiply_ones(bias, a, ones);
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    }

    // Waits until all steps have been multiplied, except the last LEFT steps.
    template <int LEFT> __device__ __forceinline__ void wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory"); }

    // Stores the weight gradient [filters][kh][kw][channels], then the bias gradient [filters], from the warpgroup's first filter and channel on.
    __device__ __forceinline__ void store(const Gradient& g, const Place& place, unsigned filter, unsigned channel, float* to) {
        // Keeps the compiler from reading the sums before this point.
#pragma unroll
        for (int i = 0; i < TAPS_I * N / 2; ++i) asm volatile("" : "+f"(d[i / (N / 2)][i % (N / 2)])::"memory");
#pragma unroll
        for (int i = 0; i < 4; ++i) asm volatile("" : "+f"(bias[i])::"memory");
        const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
        const bool has_bias = channel == 0 && place.i == 0 && place.j == 0 && lane % 4 == 0;
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            const unsigned o = filter + warp * 16 + lane / 4 + h * 8;
            if (o >= g.filters) continue;
            if (has_bias) to[g.filters * g.kh * g.kw * g.channels + o] = bias[h * 2];
#pragma unroll
            for (int tap = 0; tap < TAPS_I * TAPS_J; ++tap) {
                const unsigned i = place.i + tap / TAPS_J, j = place.j + tap % TAPS_J;
                if (i >= g.kh || j >= g.kw) continue;
                float* const row = to + ((o * g.kh + i) * g.kw + j) * g.channels + channel + lane % 4 * 2;
#pragma unroll
                for (int c = 0; c < 4; ++c) {
                    const float* of = &d[tap / TAPS_J][(tap % TAPS_J * 4 + c) * 4 + h * 2];
                    if (channel + c * 8 < g.channels) *reinterpret_cast<float2*>(row + c * 8) = make_float2(of[0], of[1]);
                }
            }
        }
    }
};

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
shifted_gradient(const __grid_constant__ TensorMap map_y, const __grid_constant__ TensorMap map_x, Gradient g,
                 float* __restrict__ out /* [splits]: [filters][kh][kw][channels] of dw, then [filters] of db */) {
    MARK_BEGIN(shifted_gradient);
    __shared__ __align__(128) unsigned ones[ONES / 2];
    __shared__ __align__(8) unsigned long long full_barriers[MOST_STAGES], empty_barriers[MOST_STAGES];
    const unsigned full = shared_address(full_barriers), empty = shared_address(empty_barriers), ring = aligned_shared();
    const unsigned tiles_x = CONSUMERS_M * g.y_room, stage_bytes = tiles_x + CONSUMERS_N * g.x_room;
    const Place place(g);
    const unsigned end = g.images * g.tiles_of_image;
    // The last step extends past the end of a box. The positions there are multiplied too, so they are set to zero.
    for (unsigned s = 0; s < g.stages; ++s) {
        const unsigned y = ring + s * stage_bytes, x = y + tiles_x;
        for (int m = 0; m < CONSUMERS_M; ++m) fill_zeros(y + m * g.y_room + g.y_box, y + (m + 1) * g.y_room);
        for (int n = 0; n < CONSUMERS_N; ++n) fill_zeros(x + n * g.x_room + g.x_box, x + (n + 1) * g.x_room);
    }
    if (threadIdx.x < ONES / 2) ones[threadIdx.x] = pack(In{}, 1.0f, 1.0f);
    fence_for_copies();
    if (threadIdx.x == 0) {
        for (int s = 0; s < MOST_STAGES; ++s) barrier_init(&full_barriers[s], 1), barrier_init(&empty_barriers[s], 4 * CONSUMERS);
        barrier_init_done();
    }
    __syncthreads();
    wait_for_predecessor();

    const int group = warpgroup_index();
    unsigned stage = 0, parity = 0;
    const auto next = [&] {
        if (++stage == g.stages) stage = 0, parity ^= 1;
    };
    if (group == CONSUMERS) {
        give_registers<PRODUCER_REGISTERS>();
        if (threadIdx.x % WARPGROUP != 0) return;
        for (unsigned at = place.split; at < end; at += place.splits, next()) {
            const unsigned image = at / g.tiles_of_image, row = at % g.tiles_of_image * g.rows;
            const unsigned barrier = full + stage * 8, y = ring + stage * stage_bytes, x = y + tiles_x;
            MARK(wait);
            // In the first round every stage is empty, and this wait returns at once: the phase before the first counts as complete.
            wait_phase(empty + stage * 8, parity ^ 1);
            MARK(load);
            expect_bytes(barrier, CONSUMERS_M * g.y_box + CONSUMERS_N * g.x_box);
            for (int m = 0; m < CONSUMERS_M; ++m) load_box(y + m * g.y_room, &map_y, place.filter + m * 64, 0, (int)row, image, barrier);
            for (int n = 0; n < CONSUMERS_N; ++n) {
                load_box(x + n * g.x_room, &map_x, place.channel + n * 32, g.left + (int)place.j, (int)(row + place.i) + g.top, image, barrier);
            }
        }
        let_successor_start();
        MARK(end);
        return;
    }
    take_registers<CONSUMER_REGISTERS>();
    const unsigned m = group / CONSUMERS_N, n = group % CONSUMERS_N;
    const bool arrives = threadIdx.x % 32 == 0;
    Taps taps;
    unsigned last = 0;
    const unsigned down = g.pitch * (X_ROW / 16);
    const auto of_bias = describe_ones(shared_address(ones));
    for (unsigned at = place.split; at < end; at += place.splits, next()) {
        const unsigned y = ring + stage * stage_bytes, x = y + tiles_x;
        auto a = describe<Y_ROW, 16>(y + m * g.y_room), b = describe<X_ROW, X_ROW>(x + n * g.x_room);
        MARK(wait);
        wait_phase(full + stage * 8, parity);
        MARK(multiply);
        taps.multiply_step(a, b, down, of_bias);
        // When only this step is pending, the previous tile has been multiplied. The pending step keeps the tensor cores busy during the wait.
        taps.wait<1>();
        if (arrives && at != place.split) arrive(empty + last * 8);
        last = stage;
#pragma unroll 2
        for (unsigned step = 1; step < g.steps; ++step) {
            a += 16 * Y_ROW / 16, b += 16 * X_ROW / 16;
            taps.multiply_step(a, b, down, of_bias);
        }
    }
    taps.wait<0>();
    MARK(store);
    taps.store(g, place, place.filter + m * 64, place.channel + n * 32, out + (size_t)place.split * g.filters * (g.kh * g.kw * g.channels + 1));
    MARK(end);
}
