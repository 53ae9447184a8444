// Idea: the latency of an instruction whose inputs are in registers: one warp runs a chain of multiply-adds, each of which needs the previous result.
// Formula: clocks = {cycles, nanoseconds} of `rounds` x ITEMS multiply-adds in a row; out[lane] = their result.
// Since the last rung: not a rung; the lowest bar of a lesson's chart of latencies.
// Needs: one block of one warp; rounds large enough that a microsecond does not matter: some chips' nanosecond clocks are that coarse.
// Expect: about four cycles per instruction.
static_assert(THREADS == 32, "one warp, so that no other fills the gaps");

extern "C" __global__ void __launch_bounds__(THREADS)
registers(float* __restrict__ out /* [32] */, unsigned long long* __restrict__ clocks /* [2] */, unsigned rounds) {
    float v = 1e-3f * threadIdx.x;
    unsigned long long begun_ns, ended_ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begun_ns)::"memory");
    const long long begun = clock64();
#pragma unroll 1
    for (unsigned round = 0; round < rounds; ++round) {
#pragma unroll
        for (int i = 0; i < ITEMS; ++i) v = fmaf(0.99f, v, 0.01f);
    }
    // Makes the clock's reading depend on the sum; otherwise it could come before the sum.
    asm volatile("" : "+f"(v)::"memory");
    const long long ended = clock64();
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ended_ns)::"memory");
    out[threadIdx.x] = v;
    if (threadIdx.x == 0) clocks[0] = ended - begun, clocks[1] = ended_ns - begun_ns;
}
