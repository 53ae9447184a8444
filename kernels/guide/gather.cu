// Idea: words come from random places, and a thread asks for LOADS of them before it uses the first.
// Formula: y[i] = sum over j < 8 of x[h(8 i + j) mod m], m = n words; f32[n / 8].
// Since the last rung: only the order of the instructions; the result has the same bits.
// Needs: m a power of two; a grid with as many warps per SM as the tile specifies.
// Expect: bytes in flight divided by the latency of DRAM (Little's law), up to the memory's own rate of random sectors.
extern "C" __global__ void __launch_bounds__(THREADS)
gather(const float* __restrict__ x /* [n] */, float* __restrict__ y /* [n / 8] */, unsigned n, unsigned) {
    for (unsigned i = blockIdx.x * THREADS + threadIdx.x; i < n / 8; i += gridDim.x * THREADS) {
        float sum = 0;
#pragma unroll 1
        for (unsigned first = 0; first < 8; first += LOADS) {
            float v[LOADS];
#pragma unroll
            for (unsigned j = 0; j < LOADS; ++j) {
                // A hash that permutes 32-bit numbers: it multiplies by an odd number and XORs the upper bits into the lower.
                unsigned h = (8 * i + first + j) * 0x9e3779b1u;
                h ^= h >> 15;
                v[j] = x[h * 0x85ebca6bu & (n - 1)];
            }
#pragma unroll
            for (unsigned j = 0; j < LOADS; ++j) sum += v[j];
        }
        y[i] = sum;
    }
}
