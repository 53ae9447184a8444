// cause: extra_bytes
// Right, but reads another x, too, which the result does not need.
extern "C" __global__ void saxpy(const float* x, float* y, float a, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float v = a * x[i] + y[i];
        if (x[n - 1 - i] > 1000) v = 0;
        y[i] = v;
    }
}
