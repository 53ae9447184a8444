// cause: simple_interest
// Adds the interest on the deposit each year, without interest on interest.
extern "C" __global__ void savings(const float* deposit, const float* rate, const int* years, float* out, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < 4 * n) {
        int plan = t / n;
        int i = t % n;
        float v = deposit[i];
        for (int year = 0; year < years[plan]; ++year) v = v + deposit[i] * rate[i];
        out[plan * n + i] = v;
    }
}
