// cause: first_plan_only
// Guards with n instead of 4 * n: three plans are missing.
extern "C" __global__ void savings(const float* deposit, const float* rate, const int* years, float* out, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < n) {
        float v = deposit[t];
        for (int year = 0; year < years[0]; ++year) v = v + v * rate[t];
        out[t] = v;
    }
}
