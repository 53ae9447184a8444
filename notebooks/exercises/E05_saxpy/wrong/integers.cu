// cause: rounded_down
// An `int` keeps no fraction.
extern "C" __global__ void saxpy(const float* x, float* y, float a, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        int product = a * x[i];
        y[i] = product + y[i];
    }
}
