// cause: out_of_bounds
// Writes one element too far: thread 31 is outside.
extern "C" __global__ void tens(int* y)
{
    int i = threadIdx.x;
    y[i + 1] = 10 * (i + 1);
    if (i == 0) y[0] = 0;
}
