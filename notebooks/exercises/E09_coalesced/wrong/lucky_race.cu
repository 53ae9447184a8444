// cause: race
// A thread also touches the element of another. On most GPUs the right value comes last.
extern "C" __global__ void scale_rows(const float* in, const float* factor, float* out, int rows, int cols)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows * cols) {
        out[rows * cols - 1 - i] = 7;
        out[i] = factor[i / cols] * in[i];
    }
}
