// Idea: the cycles that a warp's read keeps shared memory busy show in how many wavefronts its addresses are served.
// Formula: clocks[0] = cycles for THREADS / 32 warps of one block to make `rounds` x ITEMS reads each; lane l reads BYTES at offsets[l].
// Since the last rung: not a rung; a lesson compares its counted wavefronts with it.
// Needs: one block; offsets[32], multiples of BYTES up to SPAN - BYTES; 2 x ITEMS x SPAN bytes of static shared memory, at most 48 KiB.
// Expect: one cycle per wavefront of 128 bytes, with enough reads in flight that their latency does not matter.
static_assert(BYTES == 4 || BYTES == 8 || BYTES == 16, "the widths of a read");
static_assert(2 * ITEMS * SPAN <= 48 << 10, "static shared memory ends at 48 KiB a block");
static_assert(SPAN % 128 == 0, "all rows begin in the same bank");

extern "C" __global__ void __launch_bounds__(THREADS)
reads(const unsigned* __restrict__ offsets /* [32] */, float* __restrict__ out /* [THREADS] */,
      unsigned long long* __restrict__ clocks /* [1] */, unsigned rounds) {
    __shared__ __align__(128) float rows[2 * ITEMS * SPAN / 4];
    for (unsigned i = threadIdx.x; i < 2 * ITEMS * SPAN / 4; i += THREADS) rows[i] = 1e-3f * (i % 97);
    const unsigned first = (unsigned)__cvta_generic_to_shared(rows) + offsets[threadIdx.x % 32];
    float sum = 0.0f, other = 0.0f;
    __syncthreads();
    const long long begun = clock64();
#pragma unroll 1
    for (unsigned round = 0; round < rounds; ++round) {
        // Reads the other half of the rows in every other round, so that no read repeats the one before.
        const unsigned from = first + (round & 1) * (ITEMS * SPAN);
        float v[ITEMS][BYTES / 4];
#pragma unroll
        for (int k = 0; k < ITEMS; ++k) {
            const unsigned at = from + k * SPAN;
#if BYTES == 16
            asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                         : "=f"(v[k][0]), "=f"(v[k][1]), "=f"(v[k][2]), "=f"(v[k][3]) : "r"(at));
#elif BYTES == 8
            asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(v[k][0]), "=f"(v[k][1]) : "r"(at));
#else
            asm volatile("ld.shared.f32 %0, [%1];" : "=f"(v[k][0]) : "r"(at));
#endif
        }
        // Adds two words per instruction: using the values must not take longer than reading them.
#pragma unroll
        for (int k = 0; k < ITEMS; ++k) {
#if BYTES == 16
            sum = fmaf(v[k][0], v[k][1], sum), other = fmaf(v[k][2], v[k][3], other);
#elif BYTES == 8
            sum = fmaf(v[k][0], v[k][1], sum);
#else
            sum += v[k][0];
#endif
        }
    }
    out[threadIdx.x] = sum + other;
    __syncthreads();
    if (threadIdx.x == 0) clocks[0] = (unsigned long long)(clock64() - begun);
}
