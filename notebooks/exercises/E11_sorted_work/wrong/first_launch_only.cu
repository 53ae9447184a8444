// cause: later_launch
// Remembers in a variable of the device how many blocks have run, and does nothing in later launches.
__device__ int blocks;

extern "C" __global__ void savings(const float* deposit, const float* rate, const int* years, float* out, int n)
{
    __shared__ int before;
    if (threadIdx.x == 0) before = atomicAdd(&blocks, 1);
    __syncthreads();
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (before < gridDim.x && t < 4 * n) {
        int plan = t / n;
        int i = t % n;
        float v = deposit[i];
        for (int year = 0; year < years[plan]; ++year) v = v + v * rate[i];
        out[plan * n + i] = v;
    }
}
