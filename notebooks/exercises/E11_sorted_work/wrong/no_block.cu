// cause: no_block_index
// All blocks compute the results of the first one.
extern "C" __global__ void savings(const float* deposit, const float* rate, const int* years, float* out, int n)
{
    int t = threadIdx.x;
    if (t < 4 * n) {
        int plan = t / n;
        int i = t % n;
        float v = deposit[i];
        for (int year = 0; year < years[plan]; ++year) v = v + v * rate[i];
        out[plan * n + i] = v;
    }
}
