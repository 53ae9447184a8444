// cause: zeros
// Writes 0 everywhere.
extern "C" __global__ void softmax(const float* x, float* y, int cols)
{
    for (int i = threadIdx.x; i < cols; i += 256) y[blockIdx.x * cols + i] = 0;
}
