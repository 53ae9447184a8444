// cause: out_of_bounds
// The last block has more threads than there are results.
extern "C" __global__ void savings(const float* deposit, const float* rate, const int* years, float* out, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    int plan = t / n;
    int i = t % n;
    float v = deposit[i];
    for (int year = 0; year < years[plan]; ++year) v = v + v * rate[i];
    out[plan * n + i] = v;
}
