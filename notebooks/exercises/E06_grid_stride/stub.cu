extern "C" __global__ void scale(float* x, float a, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    // TODO: this thread computes element i, and then every further element that is its own.
}
