// Marks for an X-ray, which shows in which phase of its work each warp was, when, and on which SM.
//
// MARK_BEGIN(entry), with the name of the kernel, is the first mark of every warp, and MARK(end) is the last mark. In between,
// MARK(load) says that the warp loads from here on, until its next mark. A kernel chooses the names of its phases. Lane 0 records the
// marks that it passes; marks that it does not pass are not recorded. A warp waits for a read into registers where the value is first used,
// so the wait counts towards that phase.
//
// Without XRAY, marks compile to nothing: a test compares the machine code with that of a source without marks. With XRAY the host numbers the
// names (-DXRAY_load=2) and writes the address of the records to `xray_rings`, so that a kernel's parameters stay the same.
#pragma once

#ifndef XRAY
#define MARK_BEGIN(entry)
#define MARK(phase)
#else
#define MARK_BEGIN(entry) xray_begin(XRAY_ENTRY_##entry)
#define MARK(phase) xray_mark<XRAY_##phase>()

// The layout matches the host's `Rings` in crates/warpbook-device/src/xray/rings.rs.
struct XrayRings {
    uint2* records;     // [entries][warps][capacity], or null if nothing is recorded
    unsigned warps;     // number of rings of an entry: warp w of block b has ring b * (warps of a block) + w
    unsigned capacity;  // records per warp, a power of two: the first half is never overwritten, the second half is a ring buffer
};
extern "C" {
__constant__ XrayRings xray_rings;
}

// A warp's view of its ring, in shared memory: its address (0 if the warp is not recorded), its next record, half its capacity. Blocks
// are one-dimensional.
__device__ __forceinline__ unsigned xray_warps() {
    __shared__ __align__(16) uint4 warps[(THREADS + 31) / 32];
    return (unsigned)__cvta_generic_to_shared(warps);
}

// A record is the lower half of the SM's clock, then the phase (8 bits) and the number of the mark in this launch (24 bits). A mark takes few registers and no
// branch: a kernel without spare registers would spill, and the compiler may wait for wgmmas in flight before it branches.
template <unsigned PHASE>
__device__ __forceinline__ void xray_mark() {
    asm volatile(
        "{\n"
        ".reg .pred kept, early;\n"
        ".reg .b32 clock, at, low, high, next, half, slot;\n"
        ".reg .b64 record;\n"
        "mov.u32 clock, %%clock;\n"
        "mov.u32 at, %%laneid;\n"
        "setp.eq.u32 kept, at, 0;\n"
        "mov.u32 at, %%tid.x;\n"
        "shr.u32 at, at, 5;\n"
        "mad.lo.u32 at, at, 16, %0;\n"
        "ld.shared.v4.b32 {low, high, next, half}, [at];\n"
        "mov.b64 record, {low, high};\n"
        "setp.ne.and.b64 kept, record, 0, kept;\n"
        "setp.lt.u32 early, next, half;\n"
        "sub.u32 slot, half, 1;\n"
        "and.b32 slot, slot, next;\n"
        "or.b32 slot, slot, half;\n"
        "selp.b32 slot, next, slot, early;\n"
        "mad.wide.u32 record, slot, 8, record;\n"
        "mad.lo.u32 slot, next, 256, %1;\n"
        "@kept st.global.v2.b32 [record], {clock, slot};\n"
        "add.u32 next, next, 1;\n"
        "@kept st.shared.b32 [at + 8], next;\n"
        "}\n" ::"r"(xray_warps()), "n"(PHASE) : "memory");
}

// All threads of a block call this function. The first record of a ring is not a mark: it holds the upper half of the clock, and the SM, counted
// from 1, below the highest bit of the lower half.
__device__ __forceinline__ void xray_begin(unsigned entry) {
    const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    const unsigned ring = block * ((THREADS + 31) / 32) + threadIdx.x / 32;
    const bool kept = xray_rings.records != nullptr && ring < xray_rings.warps;
    uint2* const first = xray_rings.records + ((size_t)entry * xray_rings.warps + ring) * xray_rings.capacity;
    if (threadIdx.x % 32 == 0) {
        unsigned sm;
        asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
        asm volatile("st.shared.b64 [%0], %1;\nst.shared.v2.b32 [%0 + 8], {%2, %3};"
                     ::"r"(xray_warps() + threadIdx.x / 32 * 16), "l"(kept ? (size_t)first : 0), "r"(1), "r"(xray_rings.capacity / 2)
                     : "memory");
        const unsigned long long clock = clock64();
        if (kept) *first = make_uint2((unsigned)(clock >> 32), sm + 1 | (unsigned)clock & 1u << 31);
    }
    xray_mark<0>();
}
#endif
