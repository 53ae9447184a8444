// cause: copy
// Copies.
extern "C" __global__ void softmax(const float* x, float* y, int cols)
{
    for (int i = threadIdx.x; i < cols; i += 256) y[blockIdx.x * cols + i] = x[blockIdx.x * cols + i];
}
