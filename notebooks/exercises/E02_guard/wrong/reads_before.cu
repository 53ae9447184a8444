// cause: out_of_bounds
// Only the write is guarded. What was read outside is thrown away, so the result is right.
extern "C" __global__ void squares(const float* x, float* y, int n)
{
    int i = threadIdx.x;
    float v = x[i];
    y[i < n ? i : 0] = i < n ? v * v : x[0] * x[0] + 0 * v;
}
