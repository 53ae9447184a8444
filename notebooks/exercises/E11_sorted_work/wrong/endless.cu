// cause: endless
// Never counts a year.
extern "C" __global__ void savings(const float* deposit, const float* rate, const int* years, float* out, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < 4 * n) {
        int plan = t / n;
        int i = t % n;
        float v = deposit[i];
        int year = 0;
        while (year < years[plan]) {
            v = v + v * rate[i];
            out[plan * n + i] = v;
        }
    }
}
