extern "C" __global__ void savings(const float* deposit, const float* rate, const int* years, float* out, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < 4 * n) {
        // TODO: this is right, but the threads of a warp have four different numbers of years. Which thread should take which result?
        int plan = t % 4;
        int i = t / 4;
        float v = deposit[i];
        for (int year = 0; year < years[plan]; ++year) v = v + v * rate[i];
        out[plan * n + i] = v;
    }
}
