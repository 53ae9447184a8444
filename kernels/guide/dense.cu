// Idea: a layer of 64 neurons on samples of 64 features; each block computes one sample, and each thread one neuron.
// Formula: y[s][o] = max(0, sum over j of w[j][o] x[s][j]), w[j][o] = ((j x 7 + o x 13) mod 17 - 8) / 32; f32.
// Since the last rung: nothing; both halves of the pair run this kernel and differ in how many samples a launch has.
// Needs: nothing.
// Expect: a launch takes the same few microseconds for one sample as for a hundred.
extern "C" __global__ void __launch_bounds__(THREADS)
dense(const float* __restrict__ x /* [samples][64] */, float* __restrict__ y /* [samples][64] */, unsigned samples, unsigned) {
    const unsigned sample = blockIdx.x * (THREADS / 64) + threadIdx.x / 64, o = threadIdx.x % 64;
    if (sample >= samples) return;
    float v = 0;
#pragma unroll 8
    for (unsigned j = 0; j < 64; ++j) v = fmaf(((int)((j * 7 + o * 13) % 17) - 8) / 32.0f, x[sample * 64 + j], v);
    y[sample * 64 + o] = fmaxf(v, 0);
}
