// Idea: independent chains of fused multiply-adds in registers give the ceiling of fp32 arithmetic without tensor cores.
// Formula: v[k] = v[k] a + c, ITEMS chains per thread, `rounds` x 64 steps each; 2 operations per step; out f32[threads].
// Since the last rung: not a rung; this kernel measures a ceiling.
// Needs: any grid; ITEMS chains cover the latency of one multiply-add.
// Expect: 128 multiply-adds per clock and multiprocessor on compute capability 8.6 and later and 9.0, 64 on 7.5 and 8.0.
extern "C" __global__ void __launch_bounds__(THREADS)
fma_chains(float* __restrict__ out /* [threads] */, float a, float c, unsigned rounds) {
    constexpr int STEPS = 64;
    const unsigned thread = blockIdx.x * THREADS + threadIdx.x;
    float v[ITEMS];
#pragma unroll
    for (int k = 0; k < ITEMS; ++k) v[k] = (float)(thread + k);
    for (unsigned round = 0; round < rounds; ++round) {
#pragma unroll
        for (int step = 0; step < STEPS; ++step) {
#pragma unroll
            for (int k = 0; k < ITEMS; ++k) v[k] = fmaf(v[k], a, c);
        }
    }
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < ITEMS; ++k) sum += v[k];
    out[thread] = sum;
}
