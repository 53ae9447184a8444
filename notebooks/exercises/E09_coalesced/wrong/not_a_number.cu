// cause: nan
// Divides zero by zero.
extern "C" __global__ void scale_rows(const float* in, const float* factor, float* out, int rows, int cols)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows * cols) {
        out[i] = (in[i] - in[i]) / (in[i] - in[i]);
    }
}
