// cause: some_not_written
// Half of the threads do nothing.
extern "C" __global__ void tens(int* y)
{
    int i = threadIdx.x;
    if (i < 16) y[i] = 10 * i;
}
