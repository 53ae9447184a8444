extern "C" __global__ void savings(const float* deposit, const float* rate, const int* years, float* out, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < 4 * n) {
        int plan = t / n; // the same for n threads in a row: only a warp at the border has two plans
        int i = t % n;
        float v = deposit[i];
        for (int year = 0; year < years[plan]; ++year) v = v + v * rate[i];
        out[plan * n + i] = v; // neighbouring threads now write neighbouring elements, too
    }
}
