// cause: nothing_written
// Computes, and forgets to write.
extern "C" __global__ void savings(const float* deposit, const float* rate, const int* years, float* out, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < 4 * n) {
        float v = deposit[t % n];
        for (int year = 0; year < years[t / n]; ++year) v = v + v * rate[t % n];
    }
}
