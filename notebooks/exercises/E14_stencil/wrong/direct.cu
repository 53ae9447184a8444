// cause: read_seven_times
// Right, but without shared memory.
extern "C" __global__ void smooth(const float* x, float* y, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) {
        float sum = 0;
        for (int j = i - 3; j <= i + 3; ++j) {
            if (j >= 0 && j < n) sum += x[j];
        }
        y[i] = sum / 7;
    }
}
