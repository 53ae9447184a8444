// Thread-block clusters: blocks on neighbouring multiprocessors that write into each other's shared memory. Requires compute capability 9.0.
//
// See the PTX ISA, sections "Parallel Synchronization and Communication Instructions: mbarrier" and "st.async".
#pragma once

#if __CUDA_ARCH__ >= 900

__device__ __forceinline__ unsigned shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }

__device__ __forceinline__ unsigned cluster_rank() {
    unsigned rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

// A barrier for all threads of the cluster: writes before an arrival are visible after the wait. Whole warps must call both functions.
__device__ __forceinline__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
__device__ __forceinline__ void cluster_sync() { cluster_arrive(), cluster_wait(); }

// A barrier in shared memory that counts arrivals and bytes. A phase ends when `arrivals` threads have arrived and all the bytes
// that they announced have been received.
__device__ __forceinline__ void barrier_init(unsigned long long* barrier, unsigned arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}
// Makes the initialised barriers visible to the cluster. Its blocks must still synchronise before they use the barriers.
__device__ __forceinline__ void barrier_init_done() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

__device__ __forceinline__ void barrier_arrive_and_expect(unsigned long long* barrier, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes) : "memory");
}

// Waits for the end of the phase with this parity (the first phase has parity 0). The bytes received in that phase are visible afterwards.
__device__ __forceinline__ void barrier_wait(unsigned long long* barrier, unsigned parity) {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "again:\n"
        "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again;\n"
        "}\n" ::"r"(shared_address(barrier)), "r"(parity) : "memory");
}

// Returns the address in block `rank` of the cluster that corresponds to the address `ours` in this block's shared memory.
__device__ __forceinline__ unsigned address_in(unsigned rank, unsigned ours) {
    unsigned theirs;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(theirs) : "r"(ours), "r"(rank));
    return theirs;
}
__device__ __forceinline__ unsigned address_in(unsigned rank, const void* ours) { return address_in(rank, shared_address(ours)); }

// Stores 16 bytes in another block's shared memory and counts them at a barrier there, so that data and signal are one message.
__device__ __forceinline__ void store_and_signal(unsigned to, float4 v, unsigned barrier) {
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];"
                 ::"r"(to), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w), "r"(barrier) : "memory");
}

#endif
