// cause: one_too_far
// Counts threads from 1, as one counts on fingers.
extern "C" __global__ void tens(int* y)
{
    int i = threadIdx.x;
    y[i] = 10 * (i + 1);
}
