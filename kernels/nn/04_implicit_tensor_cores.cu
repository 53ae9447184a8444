// Idea: the implicit product on tensor cores: asynchronous copies of 16 bytes bring the patches, or zeros if a tap is outside the image.
// Formula: y = f(x * w + b), dx, dw as defined in kernels/nn/patches.cuh; f16, bf16 or tf32 inputs, f32 sums; PASS selects one of them.
// Since the last rung: mma.sync on swizzled tiles and fragments loaded one step ahead, as in 10_mma_swizzled.
// Needs: sm_80, with TURING sm_75; below 2^31 elements; NHWC and channels a multiple of 16 bytes for copies of 16 bytes (VECTORS_A, VECTORS_B).
// Expect: bound by L2 with few channels, because every tap reads its elements again; hits in L1 reduce this traffic.
#include "launch.cuh"
#include "nn/gather.cuh"
#include "nn/maxima.cuh"

// The possible values of PASS.
#define FORWARD 0
#define INPUT_GRADIENT 1
#define WEIGHT_GRADIENT 2

constexpr int WARPS_N = BN / WN, STEPS = BK / K_STEP;
static_assert(BM % WM == 0 && BN % WN == 0 && THREADS == BM / WM * WARPS_N * WARP, "the warps' parts cover the tile");
static_assert(STEPS % 2 == 0 && BK % K_STEP == 0, "a stage ends in the same register buffer that it started in");
static_assert(STAGES >= 2, "one stage is multiplied while another is loaded");
static_assert(!DILATED || !VECTORS_A, "pixels between zeros are no vectors");
static_assert(!CHANNELS_FIRST || (!VECTORS_A && !VECTORS_B), "channels are not adjacent");
static_assert(!POOL || (PASS == FORWARD && sizeof(In) == 2 && !CHANNELS_FIRST), "maxima are put together from words of adjacent channels");

template <class A, class B>
struct Product {
    using TileA = typename A::To;
    using TileB = typename B::To;
    using FragmentsA = Fragments<true, BM, A::IS_ALONG_K, WM>;
    using FragmentsB = Fragments<false, BN, B::IS_ALONG_K, WN>;
    // An operand whose elements are located one by one is loaded in a single call of all(), so it has no pieces here.
    static constexpr int PIECES_OF_A = A::IN_VECTORS ? A::PIECES : 0, PIECES_OF_B = B::IN_VECTORS ? B::PIECES : 0;
    static constexpr int PIECES = PIECES_OF_A + PIECES_OF_B, STAGE_BYTES = TileA::BYTES + TileB::BYTES;
    static_assert(DYNAMIC_SHARED_BYTES >= STAGES * STAGE_BYTES, "room for all stages");
    static_assert(TileA::BYTES % 128 == 0 && TileB::BYTES % 128 == 0, "the swizzle needs tiles at multiples of 128 bytes");

    float sums[WM / 16][WN / 8][4] = {};

#if TURING
    static_assert(STAGES == 2, "one stage is in shared memory, the next in registers");

    // The loop over k. While one stage is multiplied, the next is loaded into registers and then replaces the previous stage in shared
    // memory. Operands whose elements are located one by one are loaded between the multiplications.
    __device__ __forceinline__ void multiply(A from_a, B from_b, unsigned ring, unsigned stages) {
        const unsigned warp = threadIdx.x / WARP;
        uint4 arriving[PIECES > 0 ? PIECES : 1];
        const auto load = [&] {
#pragma unroll
            for (int i = 0; i < PIECES; ++i) arriving[i] = i < PIECES_OF_A ? from_a.load(i) : from_b.load(i - PIECES_OF_A);
            if (A::IN_VECTORS) from_a.advance();
            if (B::IN_VECTORS) from_b.advance();
        };
        const auto store = [&](unsigned stage) {
#pragma unroll
            for (int i = 0; i < PIECES; ++i) {
                if (i < PIECES_OF_A) from_a.store(stage, i, arriving[i]);
                else from_b.store(stage + TileA::BYTES, i - PIECES_OF_A, arriving[i]);
            }
        };
        const auto copy_elements = [&](unsigned stage) {
            if (!A::IN_VECTORS) from_a.all(stage), from_a.advance();
            if (!B::IN_VECTORS) from_b.all(stage + TileA::BYTES), from_b.advance();
        };
        const FragmentsA read_a(warp / WARPS_N);
        const FragmentsB read_b(warp % WARPS_N);
        unsigned a[2][FragmentsA::BLOCKS][4], b[2][FragmentsB::BLOCKS][4];

        load();
        store(ring);
        copy_elements(ring);
        load();
        __syncthreads();
        read_a.load(a[0], ring, 0);
        read_b.load(b[0], ring + TileA::BYTES, 0);

#pragma unroll 1
        for (unsigned stage = 0; stage < stages; ++stage) {
            const unsigned reading = ring + stage % 2 * STAGE_BYTES, writing = ring + (stage + 1) % 2 * STAGE_BYTES;
#pragma unroll
            for (int step = 0; step < STEPS; ++step) {
                const bool is_last = step == STEPS - 1;
                if (step == 0) copy_elements(writing);
                if (is_last) {
                    store(writing);
                    // After this barrier, the next stage has been stored, and every warp has finished reading this stage.
                    __syncthreads();
                }
                const int now = step % 2, then = 1 - now;
                const unsigned from = is_last ? writing : reading;
                read_a.load(a[then], from, (step + 1) % STEPS);
                read_b.load(b[then], from + TileA::BYTES, (step + 1) % STEPS);
                if (is_last) load();
                multiply_step(a[now], b[now]);
            }
        }
    }
#else
    // The loop over k, as in 10_mma_swizzled. Past the end of k, tiles are filled with zeros, so that no step is a special case.
    __device__ __forceinline__ void multiply(A from_a, B from_b, unsigned ring, unsigned stages) {
        const unsigned warp = threadIdx.x / WARP;
        const auto fetch = [&](unsigned stage, int first, int last) {
#pragma unroll
            for (int i = first; i < last && i < PIECES; ++i) {
                if (i < PIECES_OF_A) from_a.piece(stage, i);
                else from_b.piece(stage + TileA::BYTES, i - PIECES_OF_A);
            }
        };
        const auto fetch_elements = [&](unsigned stage) {
            if (!A::IN_VECTORS) from_a.all(stage);
            if (!B::IN_VECTORS) from_b.all(stage + TileA::BYTES);
        };
        const auto fetched = [&] {
            cp_async_commit();
            from_a.advance(), from_b.advance();
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
            fetch_elements(writing);
            fetched();
            next(writing);
        }
        cp_async_wait<STAGES - 2>();
        __syncthreads();
        read_a.load(a[0], reading, 0);
        read_b.load(b[0], reading + TileA::BYTES, 0);

#pragma unroll 1
        for (unsigned stage = 0; stage < stages; ++stage) {
#pragma unroll
            for (int step = 0; step < STEPS; ++step) {
                if (step == STEPS - 1) {
                    fetched();
                    next(writing);
                    next(reading);
                    // Then the next stage has arrived and every warp has finished reading this stage, which the following copies overwrite.
                    cp_async_wait<STAGES - 2>();
                    __syncthreads();
                }
                const int now = step % 2, then = 1 - now;
                if (step == 0) fetch_elements(writing);
                read_a.load(a[then], reading, (step + 1) % STEPS);
                read_b.load(b[then], reading + TileA::BYTES, (step + 1) % STEPS);
                constexpr int PIECES_A_STEP = (PIECES + STEPS - 2) / (STEPS - 1);
                if (step < STEPS - 1) fetch(writing, step * PIECES_A_STEP, (step + 1) * PIECES_A_STEP);
                multiply_step(a[now], b[now]);
            }
        }
        cp_async_wait<0>();
    }
#endif

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
                // Every other row is computed backwards, so that it starts with the B operand of the previous instruction.
                const int j = i % 2 ? WN / 8 - 1 - s : s;
                mma(sums[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
            }
        }
    }

    // Stores the warp's part of C; the block's tile starts at (row, column) of C.
    template <class T, bool IMAGES>
    __device__ __forceinline__ void store(const Result<T, IMAGES>& to, unsigned row, unsigned column) const {
        const unsigned warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
        row += warp / WARPS_N * WM + lane / 4, column += warp % WARPS_N * WN;
        if constexpr (!Result<T, IMAGES>::BY_CHANNEL) {
            const size_t base = (size_t)to.array | (size_t)to.mask;
            if constexpr (sizeof(T) == 2 && WN % 32 == 0) {
                if (to.n % 8 == 0 && base % 16 == 0) return store_vectors(to, row, column);
            }
            if constexpr (sizeof(T) == 4) {
                if (to.n % 2 == 0 && base % 8 == 0) return store_pairs(to, row, column);
            }
        }
        store_elements(to, row, column);
    }

    // Loads the biases of the thread's eight columns, out of the 32 columns that start at `column`.
    template <class Of> __device__ __forceinline__ static void load_bias(float (&add)[4][2], const Of& to, unsigned column) {
#pragma unroll
        for (int j = 0; j < 8; ++j) add[j / 2][j % 2] = to.bias_of(column + j / 2 * 8 + threadIdx.x % 4 * 2 + j % 2);
    }

    // Packs the thread's sums in its row i and in group `part` of 32 columns into words, after bias and ReLU.
    template <class T, bool IMAGES>
    __device__ __forceinline__ void words_of(unsigned (&words)[4], const float (&add)[4][2], const Result<T, IMAGES>& to, int i,
                                             int part) const {
        const auto sum = [&](int j, int k) { return sums[i / 2][part * 4 + j][i % 2 * 2 + k]; };
        activated_words(words, add, least_of(to.relu), T{}, sum);
    }

#if POOL
    // Stores the maxima of windows of 2 x 2 pixels, which are rows of C, and their taps. Lanes of left columns store every other four windows.
    template <class T, bool IMAGES>
    __device__ __forceinline__ void store_maxima(const Result<T, IMAGES>& to, unsigned row, unsigned column,
                                                 unsigned char* index /* as to, or null */) const {
        static_assert(WM % 32 == 0 && WN % 32 == 0, "two tiles of 16 rows at a time, of 32 columns");
        const unsigned warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
        row += warp / WARPS_N * WM, column += warp % WARPS_N * WN;
        const unsigned window = row / 4 + lane / 4 % 2 * 4 + lane / 8;
#pragma unroll
        for (int part = 0; part < WN / 32; ++part, column += 32) {
            float add[4][2];
            load_bias(add, to, column);
#pragma unroll
            for (int i = 0; i < WM / 16; i += 2) {
                Maxima<T> maxima;
#pragma unroll
                for (int unit = 0; unit < 2; ++unit) {
                    unsigned words[2][4];
#pragma unroll
                    for (int h = 0; h < 2; ++h) words_of(words[h], add, to, (i + unit) * 2 + h, part);
                    maxima.rows(unit, words[0], words[1]);
                }
                unsigned best[4], taps[2];
                maxima.columns(best, taps);
                const unsigned r = window + i * 4, c = column + lane % 4 * 8, at = r * to.n + c;
                if (r >= to.m || c >= to.n) continue;
                store_words(to.array + at, best);
                if (index) store_taps(index + at, taps);
            }
        }
    }
#endif

    // The four lanes of a row exchange their pairs, so that each lane stores eight adjacent elements as 16 bytes.
    template <class T, bool IMAGES>
    __device__ __forceinline__ void store_vectors(const Result<T, IMAGES>& to, unsigned row, unsigned column) const {
        const unsigned t = threadIdx.x % 4;
#pragma unroll
        for (int part = 0; part < WN / 32; ++part, column += 32) {
            float add[4][2];
            load_bias(add, to, column);
#pragma unroll
            for (int i = 0; i < WM / 8; ++i) {
                unsigned words[4];
                words_of(words, add, to, i, part);
                transpose_in_four(words, t);
                const unsigned r = row + i * 8, c = column + t * 8;
                if (r >= to.m || c >= to.n) continue;
                const unsigned at = to.row(r) + c;
                if (to.mask) mask_words(words, to.mask + at);
                store_words(to.array + at, words);
            }
        }
    }

    template <class T, bool IMAGES>
    __device__ __forceinline__ void store_pairs(const Result<T, IMAGES>& to, unsigned row, unsigned column) const {
        column += threadIdx.x % 4 * 2;
#pragma unroll
        for (int j = 0; j < WN / 8; ++j, column += 8) {
            if (column >= to.n) continue;
            const float add[2] = {to.bias_of(column), to.bias_of(column + 1)};
#pragma unroll
            for (int i = 0; i < WM / 8; ++i) {
                const unsigned r = row + i * 8, at = to.row(r) + column;
                const float* of = &sums[i / 2][j][i % 2 * 2];
                if (r >= to.m) continue;
                store_word(to.array + at, to.masked(to.activated(of[0], add[0]), at), to.masked(to.activated(of[1], add[1]), at + 1));
            }
        }
    }

    template <class T, bool IMAGES>
    __device__ __forceinline__ void store_elements(const Result<T, IMAGES>& to, unsigned row, unsigned column) const {
        column += threadIdx.x % 4 * 2;
#pragma unroll
        for (int i = 0; i < WM / 8; ++i) {
            const unsigned r = row + i * 8, at = to.row(r);
            if (r >= to.m) continue;
#pragma unroll
            for (int j = 0; j < WN / 4; ++j) {
                const unsigned c = column + j / 2 * 8 + j % 2;
                if (c < to.n) to.store(at, c, sums[i / 2][j / 2][i % 2 * 2 + j % 2], to.bias_of(c));
            }
        }
    }
};

__device__ __forceinline__ unsigned shared_ring() {
    extern __shared__ __align__(128) unsigned char dynamic_shared[];  // [STAGES], each a tile of A and a tile of B
    return address_in_shared(dynamic_shared);
}

#if PASS == FORWARD

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
forward(Patches g /* of x */, const In* __restrict__ x /* images */, const In* __restrict__ weight /* [filters][taps] */,
        const float* __restrict__ bias /* [filters], or null */, unsigned relu, In* __restrict__ y /* images; POOL: maxima */,
        unsigned filters
#if POOL
        , unsigned char* __restrict__ index /* as y, or null */
#endif
) {
    wait_for_predecessor();
    let_successor_start();
    using A = Gather<BM, VECTORS_A || !CHANNELS_FIRST, VECTORS_A, PixelsByTaps>;
    using B = Gather<BN, true, VECTORS_B, Weights>;
    const unsigned tiles_n = (filters + BN - 1) / BN, row = blockIdx.x / tiles_n * BM, column = blockIdx.x % tiles_n * BN;
    Product<A, B> product;
    product.multiply(A({x, g}, row, 0), B({weight, filters, g.taps}, column, 0), shared_ring(), (g.taps + BK - 1) / BK);
    const Result<In, true> to = {y, g.pixels, filters, g.grid, bias, relu, nullptr};
#if POOL
    product.store_maxima(to, row, column, index);
#else
    product.store(to, row, column);
#endif
}

#elif PASS == INPUT_GRADIENT

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
input_gradient(Patches g /* of dy */, const In* __restrict__ dy /* images */, const In* __restrict__ weight /* [filters][taps of x] */,
               const In* __restrict__ mask /* as dx, or null */, In* __restrict__ dx /* images */, unsigned channels, unsigned filters,
               unsigned window /* kh kw */) {
    wait_for_predecessor();
    let_successor_start();
    using A = Gather<BM, VECTORS_A || !CHANNELS_FIRST, VECTORS_A, PixelsByTaps>;
    using B = Gather<BN, false, VECTORS_B, MirroredWeights>;
    const unsigned tiles_n = (channels + BN - 1) / BN, row = blockIdx.x / tiles_n * BM, column = blockIdx.x % tiles_n * BN;
    Product<A, B> product;
    product.multiply(A({dy, g}, row, 0), B({weight, g, channels, filters, window}, column, 0), shared_ring(), (g.taps + BK - 1) / BK);
    product.store(Result<In, true>{dx, g.pixels, channels, g.grid, nullptr, 0, mask}, row, column);
}

#else

// Each block sums over `share` pixels, which is a multiple of BK. Every block has at least one pixel.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
weight_gradient(Patches g /* of x */, const In* __restrict__ x /* images */, const In* __restrict__ dy /* images */,
                float* __restrict__ out /* [ceil(pixels / share)][filters][taps] */, unsigned filters, unsigned share) {
    wait_for_predecessor();
    let_successor_start();
    using A = Gather<BM, CHANNELS_FIRST, VECTORS_A, FiltersByPixels>;
    using B = Gather<BN, !VECTORS_B, VECTORS_B, TapsByPixels>;
    const unsigned tiles_n = (g.taps + BN - 1) / BN, tiles = (filters + BM - 1) / BM * tiles_n, part = blockIdx.x / tiles;
    const unsigned row = blockIdx.x % tiles / tiles_n * BM, column = blockIdx.x % tiles_n * BN;
    const unsigned first = part * share, end = min(first + share, g.pixels);
    Product<A, B> product;
    product.multiply(A({dy, g, filters, end}, row, first), B({x, g, end}, column, first), shared_ring(), (end - first + BK - 1) / BK);
    float* const to = out + (size_t)part * filters * g.taps;
    product.store(Result<float, false>{to, filters, g.taps, g.grid, nullptr, 0, nullptr}, row, column);
}

#endif
