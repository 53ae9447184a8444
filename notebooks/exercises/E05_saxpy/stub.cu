extern "C" __global__ void saxpy(const float* x, float* y, float a, int n)
{
    // TODO: each thread computes one element of y.
}
