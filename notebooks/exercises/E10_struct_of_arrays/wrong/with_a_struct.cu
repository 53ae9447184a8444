// cause: array_of_structs
// A struct reads better, but its members still lie 12 bytes apart from thread to thread.
struct Point {
    float x, y, z;
};

extern "C" __global__ void split(const float* points, float* out, int n)
{
    int p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p < n) {
        Point point = ((const Point*)points)[p];
        out[p] = point.x;
        out[n + p] = point.y;
        out[2 * n + p] = point.z;
    }
}
