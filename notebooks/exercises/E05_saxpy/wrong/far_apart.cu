// cause: many_sectors
// Right, but neighbouring threads take elements that are far apart: a sector for each.
extern "C" __global__ void saxpy(const float* x, float* y, float a, int n)
{
    int i = threadIdx.x * gridDim.x + blockIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}
