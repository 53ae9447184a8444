// cause: plan_by_block
// Each block takes one plan. The grid has enough threads, but not in whole blocks for each plan.
extern "C" __global__ void savings(const float* deposit, const float* rate, const int* years, float* out, int n)
{
    int plan = blockIdx.x % 4;
    int i = blockIdx.x / 4 * blockDim.x + threadIdx.x;
    if (i < n) {
        float v = deposit[i];
        for (int year = 0; year < years[plan]; ++year) v = v + v * rate[i];
        out[plan * n + i] = v;
    }
}
