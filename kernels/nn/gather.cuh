// Loads the tiles of an operand whose elements may be scattered in memory, for kernels that use tensor cores.
#pragma once
#include "matmul/mma.cuh"
#include "nn/patches.cuh"

#if __CUDA_ARCH__ >= 750

#if !TURING
// Like cp_async16, but writes either all 16 bytes or zeros, and caches in L1, because neighbouring taps read the same elements again.
__device__ __forceinline__ void cp_async16_cached(unsigned to, const void* from, bool inside) {
    asm volatile("cp.async.ca.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(inside ? 16 : 0) : "memory");
}
#endif

// The chunks of an operand's tile that a thread loads: PIECES chunks of 16 bytes, in rows with the same swizzle.
template <int OUTER, bool ALONG_K>
struct Chunks {
    using To = Tile<OUTER, ALONG_K>;
    static constexpr bool IS_ALONG_K = ALONG_K;
    static constexpr int ROWS_AT_ONCE = THREADS / To::CHUNKS, PIECES = To::ROWS / ROWS_AT_ONCE;
    static_assert(THREADS % To::CHUNKS == 0 && To::ROWS % ROWS_AT_ONCE == 0, "every thread copies the same number of chunks");
    static_assert(ROWS_AT_ONCE % (To::WORDWISE ? 4 : 8) == 0, "a thread's chunks are in rows of the same swizzle");

    unsigned row = threadIdx.x / To::CHUNKS, column = threadIdx.x % To::CHUNKS * VECTOR;  // position of the first element
    unsigned to = To::offset(threadIdx.x / To::CHUNKS, threadIdx.x % To::CHUNKS);         // offset of the first chunk in the tile

    // The address of chunk i in shared memory.
    __device__ __forceinline__ unsigned place(unsigned tile, int i) const { return tile + to + i * ROWS_AT_ONCE * To::ROW_BYTES; }
};

// Loads tiles of an operand, one after the other along k. VECTORS: a chunk's elements are adjacent in memory, aligned to 16 bytes, and
// either all inside the image or all outside. The positions of the outer indices are computed only once.
template <int OUTER, bool ALONG_K, bool VECTORS, class Map>
struct Gather : Chunks<OUTER, ALONG_K> {
    using Base = Chunks<OUTER, ALONG_K>;
    using To = typename Base::To;
    static constexpr bool IN_VECTORS = true;
    static constexpr int OUTERS = ALONG_K ? Base::PIECES : 1;

    Map map;
    typename Map::Outer outers[OUTERS];
    unsigned k;  // k of the thread's first chunk in the next tile

    // The first tile starts at the indices `outer` and `k` of the operand.
    __device__ __forceinline__ Gather(const Map& map, unsigned outer, unsigned k) : map(map), k(k + (ALONG_K ? this->column : this->row)) {
#pragma unroll
        for (int i = 0; i < OUTERS; ++i) outers[i] = map.outer(outer + (ALONG_K ? this->row + i * Base::ROWS_AT_ONCE : this->column));
    }

    // Returns the address of the thread's chunk i, and sets `inside` to whether the chunk is inside the image.
    __device__ __forceinline__ const In* chunk(int i, bool& inside) const {
        unsigned from;
        const auto inner = map.inner(ALONG_K ? k : k + i * Base::ROWS_AT_ONCE);
        inside = map.find(outers[ALONG_K ? i : 0], inner, from);
        return map.array + (inside ? from : 0);
    }
#if TURING
    __device__ __forceinline__ uint4 load(int i) const {
        bool inside;
        const In* from = chunk(i, inside);
        return inside ? __ldg(reinterpret_cast<const uint4*>(from)) : make_uint4(0, 0, 0, 0);
    }
    __device__ __forceinline__ void store(unsigned tile, int i, uint4 loaded) const { store_shared(this->place(tile, i), loaded); }
#else
    __device__ __forceinline__ void piece(unsigned tile, int i) const {
        bool inside;
        const In* from = chunk(i, inside);
        cp_async16_cached(this->place(tile, i), from, inside);
    }
#endif
    __device__ __forceinline__ void all(unsigned tile) const {
#pragma unroll
        for (int i = 0; i < Base::PIECES; ++i) {
#if TURING
            store(tile, i, load(i));
#else
            piece(tile, i);
#endif
        }
    }
    __device__ __forceinline__ void advance() { k += BK; }
};

// Without VECTORS, each element is located and loaded separately. No positions are kept, to save registers for the sums.
template <int OUTER, bool ALONG_K, class Map>
struct Gather<OUTER, ALONG_K, false, Map> : Chunks<OUTER, ALONG_K> {
    using Base = Chunks<OUTER, ALONG_K>;
    using To = typename Base::To;
    static constexpr bool IN_VECTORS = false;

    Map map;
    unsigned first, k;  // indices at which the next tile starts

    __device__ __forceinline__ Gather(const Map& map, unsigned outer, unsigned k) : map(map), first(outer), k(k) {}

#if TURING
    __device__ __forceinline__ uint4 load(int) const { return make_uint4(0, 0, 0, 0); }
    __device__ __forceinline__ void store(unsigned, int, uint4) const {}
#else
    __device__ __forceinline__ void piece(unsigned, int) const {}
#endif
    __device__ __forceinline__ void all(unsigned tile) const {
#pragma unroll 1
        for (int i = 0; i < Base::PIECES; ++i) {
            const unsigned row = this->row + i * Base::ROWS_AT_ONCE;
            const unsigned outer = first + (ALONG_K ? row : this->column), at_k = k + (ALONG_K ? this->column : row);
            unsigned words[4] = {};
            if (outer < map.outers() && at_k < map.inners()) find(words, outer, at_k);
            store_shared(this->place(tile, i), make_uint4(words[0], words[1], words[2], words[3]));
        }
    }
    __device__ __forceinline__ void find(unsigned (&words)[4], unsigned outer, unsigned at_k) const {
#pragma unroll
        for (int e = 0; e < VECTOR; ++e) {
            unsigned from;
            const bool inside = map.find(map.outer(ALONG_K ? outer : outer + e), map.inner(ALONG_K ? at_k + e : at_k), from);
            if constexpr (sizeof(In) == 4) {
                if (inside) words[e] = reinterpret_cast<const unsigned*>(map.array)[from];
            } else {
                unsigned short bits = 0;
                if (inside) bits = reinterpret_cast<const unsigned short*>(map.array)[from];
                words[e / 2] |= (unsigned)bits << 16 * (e % 2);
            }
        }
    }
    __device__ __forceinline__ void advance() { k += BK; }
};

#endif
