// cause: divergent
// Four branches in place of one loop: the warp still goes through all of them.
extern "C" __global__ void savings(const float* deposit, const float* rate, const int* years, float* out, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < 4 * n) {
        int i = t / 4;
        float v = deposit[i], r = rate[i];
        if (t % 4 == 0) {
            for (int year = 0; year < years[0]; ++year) v = v + v * r;
            out[i] = v;
        } else if (t % 4 == 1) {
            for (int year = 0; year < years[1]; ++year) v = v + v * r;
            out[n + i] = v;
        } else if (t % 4 == 2) {
            for (int year = 0; year < years[2]; ++year) v = v + v * r;
            out[2 * n + i] = v;
        } else {
            for (int year = 0; year < years[3]; ++year) v = v + v * r;
            out[3 * n + i] = v;
        }
    }
}
