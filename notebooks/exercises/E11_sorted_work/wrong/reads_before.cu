// cause: out_of_bounds
// Reads the next rate, too, and multiplies it by zero.
extern "C" __global__ void savings(const float* deposit, const float* rate, const int* years, float* out, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < 4 * n) {
        int plan = t / n;
        int i = t % n;
        float v = deposit[i] + (rate[i + 1] == 7 ? 1e-30f : 0);
        for (int year = 0; year < years[plan]; ++year) v = v + v * rate[i];
        out[plan * n + i] = v;
    }
}
