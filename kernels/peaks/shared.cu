// Idea: the rate at which every lane reads its own 16 bytes of shared memory is the ceiling for data that is kept in shared memory.
// Formula: out[thread] = sum of what the thread read of a tile of ITEMS x THREADS x 16 bytes, over `rounds` rounds; f32.
// Since the last rung: not a rung; this kernel measures a ceiling.
// Needs: ITEMS x THREADS x 16 bytes of static shared memory, at most 48 KiB.
// Expect: 32 banks of 4 bytes per clock: 128 bytes per clock and multiprocessor.
static_assert(ITEMS * THREADS * 16 <= 48 << 10, "static shared memory ends at 48 KiB a block");

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
shared_sum(float* __restrict__ out /* [threads] */, unsigned rounds) {
    __shared__ float4 tile[ITEMS][THREADS];
#pragma unroll
    for (int k = 0; k < ITEMS; ++k) tile[k][threadIdx.x] = make_float4(k, threadIdx.x, 1.0f, 0.5f);
    __syncthreads();
    float4 sum = make_float4(0, 0, 0, 0);
    for (unsigned round = 0; round < rounds; ++round) {
        // Reads another thread's column in every round, so that nothing can be kept from the last round.
        const unsigned column = (threadIdx.x + round) % THREADS;
#pragma unroll
        for (int k = 0; k < ITEMS; ++k) {
            const float4 v = tile[k][column];
            sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
        }
    }
    out[blockIdx.x * THREADS + threadIdx.x] = (sum.x + sum.y) + (sum.z + sum.w);
}
