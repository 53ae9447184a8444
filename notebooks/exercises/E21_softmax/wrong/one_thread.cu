// cause: read_many_times
// Right, but each thread goes over the whole row.
extern "C" __global__ void softmax(const float* x, float* y, int cols)
{
    const float* row = x + blockIdx.x * cols;
    float top = -3.4e38f, sum = 0;
    for (int i = 0; i < cols; ++i) {
        float v = row[i];
        if (v > top) {
            sum = sum * expf(top - v) + 1;
            top = v;
        } else {
            sum += expf(v - top);
        }
    }
    for (int i = threadIdx.x; i < cols; i += 256) y[blockIdx.x * cols + i] = expf(row[i] - top) / sum;
}
