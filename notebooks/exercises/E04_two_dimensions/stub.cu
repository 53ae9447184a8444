extern "C" __global__ void mirror(const float* in, float* out, int width, int height)
{
    // TODO: compute this thread's column x and row y, and write one pixel.
}
