// cause: one_year_less
// Begins to count years with 1, and ends as if it had begun with 0.
extern "C" __global__ void savings(const float* deposit, const float* rate, const int* years, float* out, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < 4 * n) {
        int plan = t / n;
        int i = t % n;
        float v = deposit[i];
        for (int year = 1; year < years[plan]; ++year) v = v + v * rate[i];
        out[plan * n + i] = v;
    }
}
