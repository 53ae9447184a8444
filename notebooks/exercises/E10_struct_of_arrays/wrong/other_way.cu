// cause: wrong_direction
// Takes the input for a struct of arrays and makes an array of structs of it.
extern "C" __global__ void split(const float* points, float* out, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < 3 * n) {
        int p = t % n;
        int c = t / n;
        out[3 * p + c] = points[t];
    }
}
