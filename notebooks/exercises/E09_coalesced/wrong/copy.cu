// cause: copy
// Copies the matrix.
extern "C" __global__ void scale_rows(const float* in, const float* factor, float* out, int rows, int cols)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows * cols) {
        out[i] = in[i];
    }
}
