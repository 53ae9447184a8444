// Idea: words come from random places, and a thread asks for LOADS of them before it uses the first.
// Formula: y[i] = sum over j < 8 of x[h(8 i + j) mod m], m = n words; f32[n / 8].
// Since the last rung: the order of the instructions alone; the result has the same bits.
// Needs: m a power of two; a grid of as many warps an SM as the tile says.
// Expect: by Little's law: bytes in flight over the latency of DRAM, until the memory's own rate of random sectors is reached.
extern "C" __global__ void __launch_bounds__(THREADS)
gather(const float* __restrict__ x /* [n] */, float* __restrict__ y /* [n / 8] */, unsigned n, unsigned) {
    for (unsigned i = blockIdx.x * THREADS + threadIdx.x; i < n / 8; i += gridDim.x * THREADS) {
        float sum = 0;
#pragma unroll 1
        for (unsigned first = 0; first < 8; first += LOADS) {
            float v[LOADS];
#pragma unroll
            for (unsigned j = 0; j < LOADS; ++j) {
                // A hash that is a permutation of 32 bits: multiplication by an odd number, folded.
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
