// The custom layer of several tests: Swish (Ramachandran et al., 2017) with a learned slope.
__global__ void forward(const T* x, const float* beta, T* y, unsigned n) {
    unsigned i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
    y[i] = v / (1 + expf(-*beta * v));
}

__global__ void backward(const T* x, const T* y, const T* dy, const float* beta, T* dx, float* dbeta, unsigned n) {
    unsigned i = blockIdx.x * THREADS + threadIdx.x;
    float share = 0;
    if (i < n) {
        float v = x[i], g = dy[i], s = 1 / (1 + expf(-*beta * v));
        dx[i] = g * s * (1 + *beta * v * (1 - s));
        share = g * v * v * s * (1 - s);
    }
    share = block_sum(share);
    if (threadIdx.x == 0) dbeta[blockIdx.x] = share;
}
