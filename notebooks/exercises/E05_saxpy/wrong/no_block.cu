// cause: race
// All blocks compute the elements of the first one, and change them again and again.
extern "C" __global__ void saxpy(const float* x, float* y, float a, int n)
{
    int i = threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}
