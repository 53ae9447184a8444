extern "C" __global__ void differences(const float* x, float* y, int n)
{
    __shared__ float part[128]; // one array for each block
    int t = threadIdx.x;
    int i = blockIdx.x * blockDim.x + t;
    if (i < n) {
        part[t] = x[i];
    }
    __syncthreads(); // outside of the conditions: every thread arrives, also those without an element
    if (i < n) {
        y[i] = t > 0 ? part[t] - part[t - 1] : 0;
    }
}
