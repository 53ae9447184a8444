// cause: nothing_written
// Row and column, and nothing else.
extern "C" __global__ void scale_rows(const float* in, const float* factor, float* out, int rows, int cols)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int row = i / cols;
    int col = i % cols;
}
