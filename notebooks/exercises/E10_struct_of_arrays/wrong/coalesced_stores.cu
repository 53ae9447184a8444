// cause: array_of_structs
// One thread for each number, but in the order of `out`: now the writes are neighbours, and the reads are not.
extern "C" __global__ void split(const float* points, float* out, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < 3 * n) {
        int c = t / n;
        int p = t % n;
        out[t] = points[3 * p + c];
    }
}
