// cause: one_plan_for_all
// All threads agree, because all of them run the longest plan.
extern "C" __global__ void savings(const float* deposit, const float* rate, const int* years, float* out, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < 4 * n) {
        int i = t % n;
        float v = deposit[i];
        for (int year = 0; year < years[3]; ++year) v = v + v * rate[i];
        out[t] = v;
    }
}
