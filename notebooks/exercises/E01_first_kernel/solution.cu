extern "C" __global__ void tens(int* y)
{
    int i = threadIdx.x; // this thread's number: 0 in the first thread, 31 in the last
    y[i] = 10 * i;       // each thread writes one element, and no two threads write the same one
}
