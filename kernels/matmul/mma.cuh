// Building blocks for warp-level tensor cores (sm_80, with TURING sm_75): asynchronous copies, fragments, and mma.sync.
//
// See the PTX ISA, sections "Data Movement and Conversion Instructions: cp.async" and "Warp Level Matrix Instructions" (ldmatrix, mma). These
// instructions take 32-bit addresses of shared memory. A kernel that uses the tiles is compiled with THREADS and BK.
#pragma once
#include "matmul/gemm.cuh"
#include "reduce.cuh"

// If 1, only instructions of sm_75 are used, and only f16: no asynchronous copies, and an mma.sync covers half the k.
#ifndef TURING
#define TURING 0
#endif

constexpr int VECTOR = 16 / sizeof(In);  // Elements in a chunk of 16 bytes, the widest access of a thread.
constexpr int K_STEP = 32 / sizeof(In);  // Elements along k in one tensor-core instruction: 16, or 8 for tf32.

__device__ __forceinline__ unsigned address_in_shared(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }

// Loads the chunk at `from`, of which `left` elements exist (none if negative); the others are zeros. An aligned chunk takes one load.
__device__ __forceinline__ uint4 load_chunk(const In* __restrict__ from, int left, bool aligned) {
    if (aligned && left >= VECTOR) return *reinterpret_cast<const uint4*>(from);
    unsigned words[4] = {};
#pragma unroll
    for (int e = 0; e < VECTOR; ++e) {
        if (e >= left) continue;
        if constexpr (sizeof(In) == 4) words[e] = __float_as_uint(to_float(from[e]));
        else words[e / 2] |= (unsigned)reinterpret_cast<const unsigned short*>(from)[e] << 16 * (e % 2);
    }
    return make_uint4(words[0], words[1], words[2], words[3]);
}

#if __CUDA_ARCH__ >= 800 && !TURING

// Copies 16 bytes to shared memory without passing through registers: the first `bytes` are read, the others are zeros.
__device__ __forceinline__ void cp_async16(unsigned to, const void* from, int bytes) {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
// Closes a group of this thread's copies, for which the thread can wait later.
__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits until all but the last N groups of this thread have arrived. Other threads' copies need a barrier as well.
template <int N>
__device__ __forceinline__ void cp_async_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }

#endif
#if __CUDA_ARCH__ >= 750

__device__ __forceinline__ void store_shared(unsigned to, uint4 v) {
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}
__device__ __forceinline__ unsigned load_shared(unsigned from) {
    unsigned v;
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(v) : "r"(from) : "memory");
    return v;
}

// Loads four matrices of 8 rows of 16 bytes; lane l gives the address of row l % 8 of matrix l / 8. A lane receives, of each matrix,
// the 4 bytes at 4 (lane % 4) of row lane / 4.
__device__ __forceinline__ void ldmatrix_x4(unsigned (&r)[4], unsigned row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(row) : "memory");
}
// Loads four 8 x 8 matrices of 16-bit elements transposed: a lane receives the elements in column lane / 4 of rows 2 (lane % 4) and 2 (lane % 4) + 1.
__device__ __forceinline__ void ldmatrix_x4_trans(unsigned (&r)[4], unsigned row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(row) : "memory");
}

// d[16][8] += a[16][K_STEP] b[K_STEP][8], distributed over the lanes with g = lane / 4 and t = lane % 4:
//   d[i]: row g + 8 (i / 2), column 2 t + i % 2
//   a[i]: row g + 8 (i % 2); k = 2 t + 8 (i / 2) and the next, or for tf32 k = t + 4 (i / 2)
//   b0, b1: column g; k as in a[0], a[2]
#if TURING
__device__ __forceinline__ void mma(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    static_assert(IN == TYPE_F16, "sm_75 multiplies f16");
    const auto half = [&](unsigned upper, unsigned lower, unsigned b) {
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(upper), "r"(lower), "r"(b));
    };
    half(a[0], a[1], b0);
    half(a[2], a[3], b1);
}
#else
__device__ __forceinline__ void mma(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
#define MMA(SHAPE_AND_TYPES) \
    asm volatile("mma.sync.aligned." SHAPE_AND_TYPES " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1))
    if constexpr (IN == TYPE_F32) MMA("m16n8k8.row.col.f32.tf32.tf32.f32");
    else if constexpr (IN == TYPE_F16) MMA("m16n8k16.row.col.f32.f16.f16.f32");
    else MMA("m16n8k16.row.col.f32.bf16.bf16.f32");
#undef MMA
}
#endif

// Tensor cores ignore the lower 13 bits of a tf32 operand, so adding half a unit of the last bit that is read rounds to nearest (ties
// away from 0), as cvt.rna.tf32.f32 does with one more instruction. A NaN is left alone: the addition could turn it into 0.
__device__ __forceinline__ void round_to_tf32(unsigned& bits) {
    asm volatile("{\n.reg .pred number;\nsetp.eq.f32 number, %1, %1;\n@number add.u32 %0, %0, 0x1000;\n}"
                 : "+r"(bits) : "f"(__uint_as_float(bits)));
}

// An operand's tile in shared memory, OUTER (along m or n) x BK: [OUTER][BK] if it is contiguous along k in memory, otherwise [BK][OUTER].
//
// Chunk c of row r is stored as chunk c ^ swizzle(r), so that simultaneous reads are spread over all 32 banks (128 bytes in total).
template <int OUTER, bool ALONG_K>
struct Tile {
    static constexpr int ROWS = ALONG_K ? OUTER : BK, COLUMNS = ALONG_K ? BK : OUTER;
    static constexpr int ROW_BYTES = COLUMNS * sizeof(In), BYTES = ROWS * ROW_BYTES, CHUNKS = ROW_BYTES / 16;
    static constexpr bool WORDWISE = sizeof(In) == 4 && !ALONG_K;  // ldmatrix cannot transpose 32-bit elements.
    static_assert((ROW_BYTES & (ROW_BYTES - 1)) == 0, "an XOR permutes the chunks of a power of two");
    static_assert(ROW_BYTES == 64 ? !WORDWISE : ALONG_K ? ROW_BYTES == 128 : ROW_BYTES >= 128, "the rows that the swizzle supports");
    static_assert(ROWS % 8 == 0, "the swizzle repeats after 8 rows");

    __device__ static constexpr unsigned swizzle(unsigned row) {
        // Eight words, or two chunks, of each of four rows are read at once.
        if (WORDWISE) return row % 4 * 2;
        // One chunk of each of eight rows is read at once. With rows of 64 bytes, two rows together cover all banks once.
        return ROW_BYTES >= 128 ? row % 8 : row / 2 % 4;
    }
    __device__ static constexpr unsigned offset(unsigned row, unsigned chunk) { return row * ROW_BYTES + (chunk ^ swizzle(row)) * 16; }
};

// Loads an operand's tiles into shared memory, one after the other along k, PIECES chunks per thread and tile.
template <int OUTER, bool ALONG_K>
struct Fetch {
    using To = Tile<OUTER, ALONG_K>;
    static constexpr int ROWS_AT_ONCE = THREADS / To::CHUNKS, PIECES = To::ROWS / ROWS_AT_ONCE;
    static_assert(THREADS % To::CHUNKS == 0 && To::ROWS % ROWS_AT_ONCE == 0, "every thread copies the same number of chunks");
    static_assert(ROWS_AT_ONCE % (To::WORDWISE ? 4 : 8) == 0, "a thread's chunks are in rows of the same swizzle");

    const In* from;     // the thread's first chunk of the next tile
    unsigned ld;        // distance between rows in elements
    int rows, columns;  // rows and columns of the operand, counted from `from`
    unsigned to;        // the chunk's offset in the tile
    bool aligned;       // whether all chunks are aligned

    // `outer` and `k` are the extents of the whole operand; the tile starts at `first` along the outer one.
    __device__ __forceinline__ Fetch(const In* matrix, unsigned outer, unsigned k, unsigned ld, unsigned first) : ld(ld) {
        const unsigned row = threadIdx.x / To::CHUNKS, chunk = threadIdx.x % To::CHUNKS;
        const unsigned first_row = row + (ALONG_K ? first : 0), first_column = chunk * VECTOR + (ALONG_K ? 0 : first);
        from = matrix + (size_t)first_row * ld + first_column;
        rows = (int)(ALONG_K ? outer : k) - (int)first_row;
        columns = (int)(ALONG_K ? k : outer) - (int)first_column;
        to = To::offset(row, chunk);
        aligned = (size_t)matrix % 16 == 0 && ld % VECTOR == 0;
    }

    // Starts to load the next tile. WHOLE: every chunk is aligned, and entirely inside or entirely outside the operand.
    template <bool WHOLE>
    __device__ __forceinline__ void piece(unsigned tile, int i) const {
        const In* chunk = from + (size_t)(i * ROWS_AT_ONCE) * ld;
        const unsigned at = tile + to + i * ROWS_AT_ONCE * To::ROW_BYTES;
        const int left = rows > i * ROWS_AT_ONCE ? columns : 0;
        if (WHOLE) cp_async16(at, chunk, left > 0 ? 16 : 0);
        else if (aligned) cp_async16(at, chunk, max(min(left, VECTOR), 0) * (int)sizeof(In));
        else store_shared(at, load_chunk(chunk, left, false));
    }
    __device__ __forceinline__ void advance() {
        if constexpr (ALONG_K) from += BK, columns -= BK;
        else from += (size_t)BK * ld, rows -= BK;
    }
};

// Reads a warp's PART of an operand's tile, blocks of 16 x K_STEP in four registers each. For A they are `a` of mma(); for B they
// are b0 and b1 of the first 8 columns, then b0 and b1 of the other 8: mma() takes b0 and b1 from consecutive registers.
template <bool OF_A, int OUTER, bool ALONG_K, int PART>
struct Fragments {
    using From = Tile<OUTER, ALONG_K>;
    static constexpr int BLOCKS = PART / 16;
    static_assert(PART % 16 == 0 && (PART & (PART - 1)) == 0, "blocks of 16, and one XOR leads from one to the next");

    unsigned from;  // the offset in the tile of this lane's first read

    __device__ __forceinline__ explicit Fragments(unsigned part) {
        const unsigned lane = threadIdx.x % WARP, first = part * PART;
        // Register i holds one half of the 16 rows and one half of K_STEP; ldmatrix takes its rows from lanes i * 8 to i * 8 + 7.
        const unsigned i = lane / 8, outer = OF_A ? i % 2 : i / 2, k = OF_A ? i / 2 : i % 2;
        if constexpr (ALONG_K) from = From::offset(first + outer * 8 + lane % 8, k);
        else if constexpr (From::WORDWISE) from = From::offset(lane % 4, (first + lane / 4) / 4) + lane / 4 % 4 * 4;
        else from = From::offset(k * 8 + lane % 8, first / 8 + outer);
    }

    // Tiles start at multiples of 128 bytes, so that moving by a step or a block is also an XOR, which commutes with the XOR of the swizzle.
    __device__ __forceinline__ void load(unsigned (&r)[BLOCKS][4], unsigned tile, int step) const {
        const unsigned base = tile + from;
#pragma unroll
        for (int b = 0; b < BLOCKS; ++b) {
            if constexpr (ALONG_K) {
                ldmatrix_x4(r[b], (base ^ step * 32) + b * 16 * From::ROW_BYTES);
            } else if constexpr (From::WORDWISE) {
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const int outer = OF_A ? i % 2 : i / 2, k = OF_A ? i / 2 : i % 2;
                    r[b][i] = load_shared((base ^ (b % 2 * 64 + outer * 32)) + b / 2 * 128 + (step * 8 + k * 4) * From::ROW_BYTES);
                }
            } else {
                ldmatrix_x4_trans(r[b], (base ^ b % 4 * 32) + b / 4 * 128 + step * 16 * From::ROW_BYTES);
            }
        }
    }
};

#endif
