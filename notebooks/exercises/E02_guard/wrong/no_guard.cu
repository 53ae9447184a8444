// cause: out_of_bounds
// Threads 27 to 31 write outside.
extern "C" __global__ void squares(const float* x, float* y, int n)
{
    int i = threadIdx.x;
    y[i] = x[i] * x[i];
}
