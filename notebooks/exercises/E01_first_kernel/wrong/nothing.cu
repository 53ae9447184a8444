// cause: nothing_written
// An empty body.
extern "C" __global__ void tens(int* y)
{
}
