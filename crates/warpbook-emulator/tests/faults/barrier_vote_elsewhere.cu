// Fault: barrier, in line 9 or 10. Says: different operations
// Launch: 1 x 32, with x: f32[32]; y: u32[32]
extern "C" __global__ void k(const float* x, unsigned* y) {
    unsigned t = threadIdx.x, v;
#if MENDED
    unsigned negative = __ballot_sync(~0u, x[t] < 0.0f);
    v = t < 16 ? negative : __popc(negative);
#else
    if (t < 16) v = __ballot_sync(~0u, x[t] < 0.0f);
    else v = __any_sync(~0u, x[t] < 0.0f);
#endif
    y[t] = v;
}
