// Multiplies by 1 + rate, and counts years down.
extern "C" __global__ void savings(const float* deposit, const float* rate, const int* years, float* out, int n)
{
    int plan = (blockIdx.x * blockDim.x + threadIdx.x) / n, i = blockIdx.x * blockDim.x + threadIdx.x - plan * n;
    if (plan < 4) {
        float v = deposit[i], factor = 1 + rate[i];
        for (int left = years[plan]; left > 0; --left) v *= factor;
        out[plan * n + i] = v;
    }
}
