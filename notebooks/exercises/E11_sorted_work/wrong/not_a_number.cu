// cause: nan
// Divides zero by zero.
extern "C" __global__ void savings(const float* deposit, const float* rate, const int* years, float* out, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < 4 * n) {
        float v = deposit[t % n];
        out[t] = (v - v) / (v - v);
    }
}
