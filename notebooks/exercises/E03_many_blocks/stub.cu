extern "C" __global__ void invert(const float* x, float* y, int n)
{
    // TODO: which element is this thread's? Then write 1 - x[i] into y[i].
}
