extern "C" __global__ void matmul(const float* a, const float* b, float* c, int m, int n, int k)
{
    // TODO: which element of c is this thread's? Add up the k products, and write the sum.
}
