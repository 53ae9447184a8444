// cause: race
// Two threads write each element. On most GPUs the right one comes last.
extern "C" __global__ void tens(int* y)
{
    int i = threadIdx.x;
    y[31 - i] = 7;
    y[i] = 10 * i;
}
