// Idea: hide all latency: tiles arrive by asynchronous copies during other tiles' FMAs, fragments during the previous fragment's.
// Formula: C = f(alpha op(A) op(B) + beta C), row-major with leading dimensions; A and B of type IN, C of type OUT, sums in f32.
// Since the last rung: a ring of STAGES tiles by cp.async (f32 on sm_80; otherwise through registers); two sets of fragments; SLICES of k.
// Needs: any sizes; 16-byte copies only if base, leading dimension and extent are multiples of 16 bytes; leading dimensions below 2^24.
// Expect: one barrier per tile and almost only FMAs between barriers; bound by the FMA issue rate.
#include "matmul/cuda_cores.cuh"

constexpr int SLICE = THREADS / SLICES;  // Number of threads per slice.
static_assert(BM * BN == TM * TN * SLICE, "TM x TN elements of the tile for each thread of a slice");
static_assert(BM % WM == 0 && BN % WN == 0 && WM * WN == 32 * TM * TN, "one part of the tile for each warp");
static_assert(WM / TM % 2 == 0 && WN % TN == 0, "lanes come in pairs of rows");
static_assert(BK % 8 == 0, "operands along k are copied eight k at a time");
static_assert(SLICE == 32 || SLICES < 16, "one named barrier for each slice, and __syncthreads'");
static_assert(STAGES >= 3, "one tile is multiplied, the next has arrived, another is in flight");
// Copies are issued at this k of every four, the one for which ptxas left the fewest register bank conflicts.
constexpr int COPIES_AT = BK == 16 && SLICES == 1 ? 1 : 0;
// Padding of a row: lanes that store adjacent k of an operand write to different banks, and rows stay 16-byte aligned.
constexpr int PAD = 4;
constexpr int ROWS_APART = 4 * WM / TM, COLUMNS_APART = 4 * WN / TN;

struct Tiles {
    alignas(16) float a[BK][BM + PAD], b[BK][BN + PAD];
};
static_assert(DYNAMIC_SHARED_BYTES >= SLICES * STAGES * sizeof(Tiles), "room for the rings of tiles");
// Pitch of a slice's sums in shared memory: rows that are stored together start in different banks.
constexpr int SUMS_PITCH = BN + 4;
static_assert(SLICES == 1 || DYNAMIC_SHARED_BYTES >= SLICES * BM * SUMS_PITCH * 4, "room for the sums of all slices, in place of the rings");

#if __CUDA_ARCH__ >= 800
constexpr bool ASYNC = IN == TYPE_F32;
#else
constexpr bool ASYNC = false;
#endif

// Returns the 32-bit address in shared memory that the copy and load instructions below need.
__device__ __forceinline__ unsigned address_in_shared(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ __forceinline__ void store_shared(unsigned to, float v) {
    asm volatile("st.shared.f32 [%0], %1;" ::"r"(to), "f"(v) : "memory");
}
// Copies 4 or 16 bytes to shared memory without passing through registers, or writes zeros there.
template <int BYTES>
__device__ __forceinline__ void copy_async(unsigned to, const void* from, bool valid) {
    const int bytes = valid ? BYTES : 0;
    if constexpr (BYTES == 4) {
        asm volatile("cp.async.ca.shared.global.L2::128B [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
    } else {
        asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
    }
}
// Closes a group of this thread's copies, for which the thread can wait later.
__device__ __forceinline__ void end_group() {
    if constexpr (ASYNC) asm volatile("cp.async.commit_group;" ::: "memory");
}
// Waits until all but this thread's last N groups of copies have arrived.
template <int N>
__device__ __forceinline__ void wait_for_groups() {
    if constexpr (ASYNC) asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

// Synchronises the threads of a slice.
__device__ __forceinline__ void sync_slice(unsigned slice) {
    if constexpr (SLICES == 1) __syncthreads();
    else if constexpr (SLICE == 32) __syncwarp();
    else asm volatile("bar.sync %0, %1;" ::"r"(slice + 1), "n"(SLICE) : "memory");
}

// Loads an operand's tiles into a ring, one after the other along k. VEC4: in aligned vectors along the operand's outer extent.
template <bool ALONG_K, int OUTER, bool VEC4>
struct Feed {
    // Number of elements in a copy. Adjacent k go to different rows of the tile, so they are copied one by one.
    static constexpr int GROUP = VEC4 && !ALONG_K ? 4 : 1;
    // The threads of a slice copy PASS_OUTER x PASS_K elements in a pass: 32 bytes of each line along k, or otherwise lines in whole or in part.
    static constexpr int PASS_OUTER = ALONG_K ? SLICE / 8 : SLICE * GROUP < OUTER ? SLICE * GROUP : OUTER;
    static constexpr int PASS_K = ALONG_K ? 8 : SLICE * GROUP / PASS_OUTER;
    static constexpr int PASSES_OUTER = OUTER / PASS_OUTER, PASSES = PASSES_OUTER * (BK / PASS_K);
    static constexpr int LINES = ALONG_K ? PASSES_OUTER : PASSES;
    static_assert(PASSES * PASS_OUTER * PASS_K == OUTER * BK, "every thread makes the same number of copies");

    const In* from;           // the thread's position in the next tile
    unsigned offsets[LINES];  // offsets from `from` to the thread's positions in all its lines
    size_t step;              // distance from one tile to the next, in elements
    unsigned to;              // the thread's address in the ring's first tile
    int k;                    // the thread's k within a pass
    Group<In, GROUP> held[ASYNC ? 1 : PASSES];

    // Slices take tiles round-robin; this slice's first tile starts at `k_first`. Offsets are 32-bit to save 64-bit arithmetic. Past the end of
    // the outer extent, the last elements are repeated, since the resulting sums are not stored.
    __device__ __forceinline__ Feed(const In* array /* [extent][ld] along k, else [k][ld] */, unsigned ld, unsigned outer0,
                                    unsigned extent, int k_first, unsigned thread, float (&tile)[BK][OUTER + PAD])
        : step(ALONG_K ? SLICES * BK : (size_t)(SLICES * BK) * ld), k(ALONG_K ? thread % 8 : thread / (PASS_OUTER / GROUP)) {
        const unsigned outer = ALONG_K ? thread / 8 : thread % (PASS_OUTER / GROUP) * GROUP;
        to = address_in_shared(&tile[k][outer]);
        const long long k0 = k_first + k;
        const unsigned last = extent - GROUP - outer0, first = ALONG_K ? 0 : min(outer, last);
        from = array + (ALONG_K ? (size_t)outer0 * ld + k0 : outer0 + first + k0 * ld);
#pragma unroll
        for (int i = 0; i < LINES; ++i) {
            const unsigned line = min(outer + i % PASSES_OUTER * PASS_OUTER, last);
            offsets[i] = ALONG_K ? line * ld : i / PASSES_OUTER * PASS_K * ld + (i % PASSES_OUTER ? line - first : 0);
            // Hides from the compiler how the offsets were computed: it would otherwise recompute them for each copy.
            if constexpr (LINES > 8) asm volatile("" : "+r"(offsets[i]));
        }
    }

    // Starts to copy one of `parts` parts of the next tile. The first `missing` k of the first tile are zeros, so that all other tiles are whole.
    __device__ __forceinline__ void begin(unsigned stage, int part, int parts, int missing = 0) {
#pragma unroll
        for (int i = 0; i < PASSES; ++i) {
            if (i < part * PASSES / parts || i >= (part + 1) * PASSES / parts) continue;
            const int pass_k = i / PASSES_OUTER * PASS_K;
            const In* at = from + offsets[i % LINES] + (ALONG_K ? pass_k : 0);
            const bool valid = k + pass_k >= missing;
            if constexpr (ASYNC) copy_async<GROUP * 4>(place(stage, i), at, valid);
            else held[i] = valid ? *reinterpret_cast<const Group<In, GROUP>*>(at) : Group<In, GROUP>{};
        }
        if (part + 1 == parts) from += step;
    }

    // Writes the elements that wait in registers to the tile in shared memory.
    __device__ __forceinline__ void end(unsigned stage) {
        if constexpr (!ASYNC) {
#pragma unroll
            for (int i = 0; i < PASSES; ++i) {
#pragma unroll
                for (int e = 0; e < GROUP; ++e) store_shared(place(stage, i) + e * 4, to_float(held[i].of[e]));
            }
        }
    }

    // Returns the shared-memory address of this thread's elements in pass i.
    __device__ __forceinline__ unsigned place(unsigned stage, int i) const {
        return to + stage * sizeof(Tiles) + (i / PASSES_OUTER * PASS_K * (OUTER + PAD) + i % PASSES_OUTER * PASS_OUTER) * 4;
    }
};

template <bool VEC4>
__device__ __forceinline__ void product(const In* a, const In* b, Out* c, unsigned m, unsigned n, unsigned k, unsigned lda,
                                        unsigned ldb, unsigned ldc, const Epilogue& epilogue) {
    extern __shared__ Tiles rings[];
    const unsigned slice = SLICES == 1 ? 0 : threadIdx.x / SLICE, thread = SLICES == 1 ? threadIdx.x : threadIdx.x % SLICE;
    Tiles* const ring = rings + slice * STAGES;
    const unsigned tiles_n = (n + BN - 1) / BN;
    const unsigned row0 = blockIdx.x / tiles_n * BM, column0 = blockIdx.x % tiles_n * BN;
    // Lanes 0 and 1 are in one column, lanes 2 and 3 in the next: each vector is read by two of any four consecutive lanes.
    const unsigned warp = thread / 32, lane = thread % 32, across = WN / TN;
    const unsigned row = warp / (BN / WN) * WM + (lane / 2 / across * 2 + lane % 2) * 4;
    const unsigned column = warp % (BN / WN) * WN + lane / 2 % across * 4;

    // The first tile starts before k = 0, so that the last tile is whole.
    const unsigned all_tiles = (k + BK - 1) / BK, tiles = (all_tiles + SLICES - 1 - slice) / SLICES;
    const int before = all_tiles * BK - k, missing = slice == 0 ? before : 0;
    const int k_first = (int)(slice * BK) - before;
    Feed<!TRANS_A, BM, VEC4> feed_a(a, lda, row0, m, k_first, thread, ring[0].a);
    Feed<TRANS_B, BN, VEC4> feed_b(b, ldb, column0, n, k_first, thread, ring[0].b);
#pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage) {
        if (stage < tiles) {
            MARK(load);
            feed_a.begin(stage, 0, 1, stage == 0 ? missing : 0), feed_b.begin(stage, 0, 1, stage == 0 ? missing : 0);
            feed_a.end(stage), feed_b.end(stage);
        }
        end_group();
    }
    MARK(wait);
    wait_for_groups<STAGES - 2>();
    sync_slice(slice);

    float sums[TM][TN] = {}, fragment_a[2][TM], fragment_b[2][TN];
    read_fragment<COLUMNS_APART>(fragment_b[0], &ring[0].b[0][column]);
    read_fragment<ROWS_APART>(fragment_a[0], &ring[0].a[0][row]);
    unsigned stage = 0, free = STAGES - 1;
    for (unsigned tile = 0; tile < tiles; ++tile) {
        // At this point the next tile has arrived too, and all warps have finished the previous tile, whose stage is now free.
        MARK(wait);
        wait_for_groups<STAGES - 3>();
        MARK(barrier);
        sync_slice(slice);
        MARK(multiply);
        const unsigned next = stage + 1 == STAGES ? 0 : stage + 1;
        const bool more = tile + STAGES - 1 < tiles;
#pragma unroll
        for (int kk = 0; kk < BK; ++kk) {
            const Tiles& from = ring[kk + 1 < BK ? stage : next];
            read_fragment<COLUMNS_APART>(fragment_b[(kk + 1) % 2], &from.b[(kk + 1) % BK][column]);
            read_fragment<ROWS_APART>(fragment_a[(kk + 1) % 2], &from.a[(kk + 1) % BK][row]);
            // Issues a few copies at a time, so that fragment loads do not queue behind many of them.
            if (kk % 4 == COPIES_AT && more) feed_a.begin(free, kk / 4, BK / 4), feed_b.begin(free, kk / 4, BK / 4);
            multiply(sums, fragment_a[kk % 2], fragment_b[kk % 2]);
        }
        if (more) {
            MARK(load);
        }
        end_group();
        if (more) feed_a.end(free), feed_b.end(free);
        free = stage, stage = next;
    }
    MARK(store);
    if constexpr (SLICES == 1) {
        store_vec4<ROWS_APART, COLUMNS_APART>(epilogue, c, row0 + row, column0 + column, m, n, ldc, sums);
    } else {
        // After this barrier all slices have read all their tiles: the sums overwrite the rings and are added in the order of the slices.
        __syncthreads();
        float* const parts = reinterpret_cast<float*>(rings);
        float* const own = parts + (slice * BM + row) * SUMS_PITCH + column;
#pragma unroll
        for (int i = 0; i < TM; ++i) {
#pragma unroll
            for (int j = 0; j < TN; j += 4) {
                *reinterpret_cast<float4*>(own + place<ROWS_APART>(i) * SUMS_PITCH + place<COLUMNS_APART>(j)) =
                    make_float4(sums[i][j], sums[i][j + 1], sums[i][j + 2], sums[i][j + 3]);
            }
        }
        __syncthreads();
        for (unsigned i = threadIdx.x; i < BM * BN / 4; i += THREADS) {
            const unsigned r = i / (BN / 4), at = i % (BN / 4) * 4;
            float sum[1][4] = {};
#pragma unroll
            for (int s = 0; s < SLICES; ++s) {
                const float4 part = *reinterpret_cast<const float4*>(parts + (s * BM + r) * SUMS_PITCH + at);
                sum[0][0] += part.x, sum[0][1] += part.y, sum[0][2] += part.z, sum[0][3] += part.w;
            }
            store_vec4<4, 4>(epilogue, c, row0 + r, column0 + at, m, n, ldc, sum);
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
gemm(const In* __restrict__ a /* [m][lda], or [k][lda] transposed */, const In* __restrict__ b /* [k][ldb], or [n][ldb] transposed */,
     Out* __restrict__ c /* [m][ldc] */, unsigned m, unsigned n, unsigned k, unsigned lda, unsigned ldb, unsigned ldc, Epilogue epilogue) {
    MARK_BEGIN(gemm);
    // Offsets in a tile are 32-bit: a trap is better than a wrong result.
    if (lda >> 24 || ldb >> 24) __trap();
    const bool vec4_a = !TRANS_A || (allows_vec4(a, lda) && m % 4 == 0), vec4_b = TRANS_B || (allows_vec4(b, ldb) && n % 4 == 0);
    if (vec4_a && vec4_b) product<true>(a, b, c, m, n, k, lda, ldb, ldc, epilogue);
    else product<false>(a, b, c, m, n, k, lda, ldb, ldc, epilogue);
    MARK(end);
}
