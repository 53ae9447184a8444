// cause: one_thread
// Right, but a loop of one thread, as on a CPU.
extern "C" __global__ void scale(float* x, float a, int n)
{
    if (blockIdx.x > 0 || threadIdx.x > 0) return;
    for (int i = 0; i < n; ++i) {
        x[i] = a * x[i];
    }
}
