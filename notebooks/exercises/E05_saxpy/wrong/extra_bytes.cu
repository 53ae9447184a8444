// cause: off target
// Right, but reads y of its neighbour, too, and does not need it.
extern "C" __global__ void saxpy(const float* x, float* y, float a, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float v = a * x[i] + y[i];
        if (x[n - 1 - i] == 7) v = v + 0;
        y[i] = x[n - 1 - i] == 1234 ? v * 1 : v;
    }
}
