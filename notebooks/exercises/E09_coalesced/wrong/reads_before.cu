// cause: out_of_bounds
// Reads before it asks.
extern "C" __global__ void scale_rows(const float* in, const float* factor, float* out, int rows, int cols)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = in[i];
    if (i < rows * cols) out[i] = factor[i / cols] * v;
    else if (v == 7) out[0] = 7;
}
