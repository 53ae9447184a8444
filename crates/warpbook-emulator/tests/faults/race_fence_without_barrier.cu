// Fault: race, in line 6 or 16. Says: argument 2 (`y`)
// Launch: 3 x 64, with x: f32[192]; y: f32[192]; z: f32[1]; c: zero u32[1]
extern "C" __global__ void k(const float* x, float* y, float* z, unsigned* c) {
    __shared__ bool is_last;
    unsigned i = blockIdx.x * 64 + threadIdx.x;
    y[i] = 2.0f * x[i];
#if MENDED
    __syncthreads();
#endif
    if (threadIdx.x == 0) {
        __threadfence();
        is_last = atomicAdd(c, 1u) == gridDim.x - 1;
        __threadfence();
    }
    __syncthreads();
    if (is_last) atomicAdd(z, y[threadIdx.x * 3]);
}
