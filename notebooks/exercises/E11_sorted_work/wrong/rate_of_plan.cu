// cause: rate_of_plan
// Takes the rate at the number of the plan.
extern "C" __global__ void savings(const float* deposit, const float* rate, const int* years, float* out, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < 4 * n) {
        int plan = t / n;
        int i = t % n;
        float v = deposit[i];
        for (int year = 0; year < years[plan]; ++year) v = v + v * rate[plan];
        out[plan * n + i] = v;
    }
}
