// cause: many_sectors
// Right, but each thread takes elements that follow each other, so neighbouring threads are far apart.
extern "C" __global__ void scale(float* x, float a, int n)
{
    int threads = gridDim.x * blockDim.x;
    int each = (n + threads - 1) / threads;
    int first = (blockIdx.x * blockDim.x + threadIdx.x) * each;
    for (int i = first; i < first + each && i < n; i += 1) {
        x[i] = a * x[i];
    }
}
