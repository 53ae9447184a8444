// Fault: misaligned, in line 10. Says: argument 1 (`x`)
// Launch: 1 x 4, with x: u8[64]; y: u32[4]
// After: NVIDIA Compute Sanitizer, memcheck_demo, unaligned_kernel
extern "C" __global__ void k(const unsigned char* x, unsigned* y) {
    unsigned i = threadIdx.x;
#if MENDED
    const unsigned char* at = x + 5 * i + 1;
    y[i] = at[0] | at[1] << 8 | at[2] << 16 | at[3] << 24;
#else
    y[i] = *(const unsigned*)(x + 5 * i + 1);
#endif
}
