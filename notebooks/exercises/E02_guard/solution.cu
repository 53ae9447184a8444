extern "C" __global__ void squares(const float* x, float* y, int n)
{
    int i = threadIdx.x;
    if (i < n) {            // threads n to 31 have no element, and do nothing
        y[i] = x[i] * x[i]; // reading is inside of the condition, too
    }
}
