// cause: out_of_bounds
// Reads outside of the array. The result is right, unless a 7 happens to be there.
extern "C" __global__ void tens(int* y)
{
    int i = threadIdx.x;
    int next = y[i + 32];
    y[i] = next == 7 ? 70 : 10 * i;
}
