//! Kernels for the tests of memory and graphs.

use warpbook_device::{CudaDevice, Kernel, Slice, Stream};
use warpbook_record::{Grid, KernelSpec, Source, Tile};

const TEXT: &str = r#"
extern "C" __global__ void __launch_bounds__(THREADS) axpy(float* y, const float* x, float a, unsigned n) {
    const unsigned i = blockIdx.x * THREADS + threadIdx.x;
    if (i < n) y[i] += a * x[i];
}

// Writes only after so many cycles, so that a reader that does not wait sees the old value.
extern "C" __global__ void __launch_bounds__(THREADS) late(float* y, float value, long long cycles) {
    const long long begun = clock64();
    while (clock64() - begun < cycles) {}
    if (blockIdx.x == 0 && threadIdx.x == 0) y[0] = value;
}

extern "C" __global__ void __launch_bounds__(THREADS) narrow(
    int* out, unsigned char a, signed char b, unsigned short c, short d, unsigned short half_bits, unsigned short bf16_bits) {
    const int values[6] = {a, b, c, d, half_bits, bf16_bits};
    if (blockIdx.x == 0 && threadIdx.x < 6) out[threadIdx.x] = values[threadIdx.x];
}

// Adds up in dynamic shared memory, from its last word down.
extern "C" __global__ void __launch_bounds__(THREADS) shared(float* out, unsigned words) {
    extern __shared__ float s[];
    for (unsigned i = threadIdx.x; i < words; i += THREADS) s[i] = 1.0f;
    __syncthreads();
    if (threadIdx.x == 0) {
        float sum = 0.0f;
        for (unsigned i = words; i-- > 0;) sum += s[i];
        out[blockIdx.x] = sum;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) stray(unsigned long long address) {
    *(float*)address = 1.0f;
}
"#;

/// Returns the row of one of the kernels above, with a tile of `threads` threads per block.
pub fn spec(entry: &'static str, threads: i64) -> KernelSpec {
    let source = Source { path: "live/memory.cu", text: TEXT };
    KernelSpec::new(source, entry, &[Tile::new("t", &[("THREADS", threads)])], Grid::Cover)
}

/// Returns the kernel of [`spec`], compiled and loaded.
pub fn kernel(device: &CudaDevice, entry: &'static str, threads: i64) -> Kernel {
    let spec = spec(entry, threads);
    device.kernel(&spec, &spec.tiles[0]).unwrap()
}

/// Queues a kernel that computes y += a x.
pub fn axpy(kernel: &Kernel, stream: &Stream, y: &Slice<f32>, x: &Slice<f32>, a: f32) -> warpbook_device::Result<()> {
    assert_eq!(x.len(), y.len());
    let n = x.len() as u32;
    // SAFETY: the arguments match `axpy(y, x, a, n)`, and x and y have n elements; a graph that captures the launch owns both slices.
    unsafe { kernel.launch(stream, kernel.shape(u64::from(n)), &[y, x, &a, &n]) }
}
