// Copies boxes of arrays by TMA, with barriers that count their bytes, and helpers for warpgroups. Requires compute capability 9.0.
//
// See the PTX ISA, section "Data Movement and Conversion Instructions: cp.async.bulk.tensor".
#pragma once
#include "cluster.cuh"

constexpr int WARPGROUP = 128;

// The driver's tensor map of an array, passed by value.
struct alignas(64) TensorMap { unsigned long long words[16]; };

__device__ __forceinline__ void prefetch(const TensorMap* map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// Copies the box at (x, y) of a matrix, x counting columns; elements outside the matrix are zeros.
__device__ __forceinline__ void load_box(unsigned to, const TensorMap* map, unsigned x, unsigned y, unsigned barrier) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                 ::"r"(to), "l"(map), "r"(x), "r"(y), "r"(barrier) : "memory");
}
// Copies a box of an array of images [n][h][w][c].
__device__ __forceinline__ void load_box(unsigned to, const TensorMap* map, unsigned c, int w, int h, unsigned n, unsigned barrier) {
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], [%6];"
                 ::"r"(to), "l"(map), "r"(c), "r"(w), "r"(h), "r"(n), "r"(barrier) : "memory");
}
// Copies a box of a matrix that is read only once, so L2 is told to evict its data first.
__device__ __forceinline__ void load_box_once(unsigned to, const TensorMap* map, unsigned x, unsigned y, unsigned barrier) {
    unsigned long long policy;
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {%2, %3}], [%4], %5;"
                 ::"r"(to), "l"(map), "r"(x), "r"(y), "r"(barrier), "l"(policy) : "memory");
}
// Copies a box into every block of the cluster whose bit is set, at the same address and with the same barrier in each.
__device__ __forceinline__ void load_box_to(unsigned short blocks, unsigned to, const TensorMap* map, unsigned x, unsigned y,
                                            unsigned barrier) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1, {%2, %3}], [%4], %5;"
                 ::"r"(to), "l"(map), "r"(x), "r"(y), "r"(barrier), "h"(blocks) : "memory");
}
__device__ __forceinline__ void store_box(const TensorMap* map, unsigned from, unsigned x, unsigned y) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];"
                 ::"l"(map), "r"(x), "r"(y), "r"(from) : "memory");
}
__device__ __forceinline__ void store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
// Waits until all but the last N groups of stores have read their shared memory.
template <int N>
__device__ __forceinline__ void store_wait_read() { asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory"); }
// Makes this thread's writes to shared memory visible to bulk copies that start after a barrier.
__device__ __forceinline__ void fence_for_copies() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Barrier functions that take a shared-memory address; `cluster.cuh` has the same functions for pointers.
__device__ __forceinline__ void wait_phase(unsigned barrier, unsigned parity) {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "again:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again;\n"
        "}\n" ::"r"(barrier), "r"(parity) : "memory");
}
__device__ __forceinline__ void expect_bytes(unsigned barrier, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
__device__ __forceinline__ void arrive(unsigned barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
// Arrives at the same barrier in block `rank`. The default ordering is enough, since the arrival returns space and not data.
__device__ __forceinline__ void arrive_at(unsigned barrier, unsigned rank) {
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(address_in(rank, barrier)) : "memory");
}

// Sets the number of registers per thread to N, a multiple of 8, to move registers between warpgroups. All threads of a warpgroup call it.
template <int N> __device__ __forceinline__ void give_registers() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N)); }
template <int N> __device__ __forceinline__ void take_registers() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N)); }

// Returns the index of this thread's warpgroup. The shuffle tells the compiler that the index is uniform across the warp; otherwise it
// inserts a dozen instructions between two wgmma to make it so.
__device__ __forceinline__ int warpgroup_index() { return __shfl_sync(0xffffffffu, threadIdx.x / WARPGROUP, 0); }

// A named barrier for one warpgroup. Id 0 belongs to __syncthreads.
__device__ __forceinline__ void warpgroup_sync(int id) { asm volatile("bar.sync %0, 128;" ::"r"(id) : "memory"); }

// Returns an aligned address: dynamic shared memory has no guaranteed alignment, and the swizzle needs multiples of 1024 bytes.
__device__ __forceinline__ unsigned aligned_shared() {
    extern __shared__ unsigned char dynamic_shared[];
    return (shared_address(dynamic_shared) + 1023) & ~1023u;
}
