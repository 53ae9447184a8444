// cause: divergent
// Groups of eight threads agree, but a warp has 32.
extern "C" __global__ void savings(const float* deposit, const float* rate, const int* years, float* out, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    int plan = t / 8 % 4;
    int i = t / 32 * 8 + t % 8;
    if (i < n) {
        float v = deposit[i];
        for (int year = 0; year < years[plan]; ++year) v = v + v * rate[i];
        out[plan * n + i] = v;
    }
}
