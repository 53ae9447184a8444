// cause: first_is_itself
// The first thread of a block writes its element, as if 0 stood to the left.
extern "C" __global__ void differences(const float* x, float* y, int n)
{
    __shared__ float part[128];
    int t = threadIdx.x;
    int i = blockIdx.x * blockDim.x + t;
    if (i < n) part[t] = x[i];
    __syncthreads();
    if (i < n) y[i] = t > 0 ? part[t] - part[t - 1] : part[t];
}
