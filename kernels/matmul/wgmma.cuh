// The instruction wgmma of Hopper (sm_90a): a warpgroup multiplies tiles in shared memory.
//
// See the PTX ISA, section "Asynchronous Warpgroup Level Matrix Instructions".
#pragma once

// wgmma: d[64][N] += a[64][32 bytes] b[32 bytes][N]. A thread holds the elements
//   d[4 j + 2 h + i]: row 16 (warp % 4) + lane / 4 + 8 h, column 8 j + 2 (lane % 4) + i.
// SUMS_n lists n register operands in the instruction text, and D_n binds them to variables.
#define SUMS_16 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define SUMS_32 \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, " \
    "%26, %27, %28, %29, %30, %31"
#define SUMS_24 SUMS_16 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define SUMS_40 SUMS_32 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define SUMS_48 SUMS_32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define SUMS_56 SUMS_48 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define SUMS_64 SUMS_48 ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define SUMS_72 SUMS_64 ", %64, %65, %66, %67, %68, %69, %70, %71"
#define SUMS_80 SUMS_64 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"
#define SUMS_88 SUMS_80 ", %80, %81, %82, %83, %84, %85, %86, %87"
#define SUMS_96 SUMS_80 ", %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define SUMS_104 SUMS_96 ", %96, %97, %98, %99, %100, %101, %102, %103"
#define SUMS_112 SUMS_104 ", %104, %105, %106, %107, %108, %109, %110, %111"
#define SUMS_128 \
    SUMS_96 ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, %113, " \
    "%114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define D_8(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define D_16(i) D_8(i), D_8(i + 8)
#define D_24(i) D_16(i), D_8(i + 16)
#define D_32(i) D_8(i), D_8(i + 8), D_8(i + 16), D_8(i + 24)
#define D_40(i) D_32(i), D_8(i + 32)
#define D_48(i) D_32(i), D_16(i + 32)
#define D_56(i) D_48(i), D_8(i + 48)
#define D_64(i) D_32(i), D_32(i + 32)
#define D_72(i) D_64(i), D_8(i + 64)
#define D_80(i) D_64(i), D_16(i + 64)
#define D_88(i) D_80(i), D_8(i + 80)
#define D_96(i) D_64(i), D_32(i + 64)
#define D_104(i) D_96(i), D_8(i + 96)
#define D_112(i) D_104(i), D_8(i + 104)
#define D_128(i) D_64(i), D_64(i + 64)
// A, B and P are the numbers of the operands after the sums; TRANSPOSED says which tiles are contiguous along m or n (16-bit types only).
#define MULTIPLY(SHAPE, TYPES, SUMS, A, B, P, TRANSPOSED, BOUND, ...) \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #P ", 0;\n" \
                 "wgmma.mma_async.sync.aligned." SHAPE "." TYPES " {" SUMS "}, %" #A ", %" #B ", p, 1, 1" TRANSPOSED ";\n}\n" \
                 : BOUND : "l"(a), "l"(b), "r"(add) __VA_ARGS__)

// The matrix descriptor of a tile for wgmma. Its rows, swizzled by BYTES, are contiguous; along m or n, consecutive tiles are
// LEADING bytes apart. The swizzle depends on the address alone, so a tile may begin at any row, not only at multiples of eight.
template <int BYTES, int LEADING> __device__ __forceinline__ unsigned long long describe(unsigned address) {
    constexpr unsigned STRIDE = 8 * BYTES / 16, SWIZZLE = BYTES == 128 ? 1 : 2;
    static_assert(BYTES == 64 || BYTES == 128, "the swizzles that are used");
    return (unsigned long long)(STRIDE | SWIZZLE << 30) << 32 | (address & 0x3ffff) >> 4 | (LEADING / 16) << 16;
}
