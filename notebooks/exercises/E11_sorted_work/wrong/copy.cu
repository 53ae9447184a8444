// cause: copy
// Copies the deposits.
extern "C" __global__ void savings(const float* deposit, const float* rate, const int* years, float* out, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < 4 * n) out[t] = deposit[t % n];
}
