// Idea: each thread computes one row exactly as the formula says.
// Formula: y[r][c] = exp(x[r][c] - max_r) / sum_r exp(x[r][c] - max_r); x and y f32 [rows][columns], row-major.
// Since the last rung: no change; this is the first rung on a GPU.
// Needs: nothing; any number of rows and columns works.
// Expect: neighbouring threads read addresses a row apart, so a warp's loads are not coalesced, and a row is read three times.
#define MINUS_INFINITY __int_as_float(0xff800000)

extern "C" __global__ void __launch_bounds__(THREADS)
softmax(const float* __restrict__ x /* [rows][columns] */, float* __restrict__ y /* [rows][columns] */, unsigned rows, unsigned columns) {
    const unsigned row = blockIdx.x * THREADS + threadIdx.x;
    if (row >= rows) return;
    const float* in = x + (size_t)row * columns;
    float* out = y + (size_t)row * columns;
    float largest = MINUS_INFINITY;
    for (unsigned c = 0; c < columns; ++c) largest = fmaxf(largest, in[c]);
    float sum = 0.0f;
    for (unsigned c = 0; c < columns; ++c) sum += __expf(in[c] - largest);
    const float inverse = 1.0f / sum;
    for (unsigned c = 0; c < columns; ++c) out[c] = __expf(in[c] - largest) * inverse;
}
