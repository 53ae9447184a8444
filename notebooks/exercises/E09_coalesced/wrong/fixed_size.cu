// cause: fixed_size
// Knows only rows of 100 elements.
extern "C" __global__ void scale_rows(const float* in, const float* factor, float* out, int rows, int cols)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows * cols) {
        out[i] = factor[i / 100 % rows] * in[i];
    }
}
