// cause: unwritten
// Trusts that the array holds zeros before the launch.
extern "C" __global__ void tens(int* y)
{
    int i = threadIdx.x;
    y[i] += 10 * i;
}
