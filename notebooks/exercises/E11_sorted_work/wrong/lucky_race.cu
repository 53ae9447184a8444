// cause: race
// Another thread also writes the element. On most GPUs the right value comes last.
extern "C" __global__ void savings(const float* deposit, const float* rate, const int* years, float* out, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < 4 * n) {
        int plan = t / n;
        int i = t % n;
        out[4 * n - 1 - t] = 7;
        float v = deposit[i];
        for (int year = 0; year < years[plan]; ++year) v = v + v * rate[i];
        out[plan * n + i] = v;
    }
}
