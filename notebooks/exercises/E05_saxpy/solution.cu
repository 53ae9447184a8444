extern "C" __global__ void saxpy(const float* x, float* y, float a, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x; // neighbouring threads have neighbouring elements
    if (i < n) {
        y[i] = a * x[i] + y[i]; // two reads and one write of 4 bytes each
    }
}
