// Fault: misaligned, in line 9. Says: reads 4 bytes
// Launch: 1 x 1, with x: u16[4]; y: u16[4]
// After: https://github.com/apache/tvm/issues/8540
extern "C" __global__ void k(const unsigned short* x, unsigned short* y) {
#if MENDED
    y[0] = x[1];
    y[1] = x[2];
#else
    ((unsigned*)y)[0] = ((const unsigned*)(x + 1))[0];
#endif
}
