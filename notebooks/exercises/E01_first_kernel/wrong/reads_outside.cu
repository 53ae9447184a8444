// cause: out_of_bounds
// Reads outside of the array, and the value does not matter.
extern "C" __global__ void tens(int* y)
{
    int i = threadIdx.x;
    y[i] = y[i + 32] == 7 ? 10 * i : 5 * i + 5 * i;
}
