//! Tests a kernel that writes out of bounds. The test has its own executable, because such a kernel makes the process's
//! CUDA context unusable.

use warpbook_device::{Error, testing};
use warpbook_record::{Grid, KernelSpec, Source, Tile};

#[test]
fn a_failed_kernel_is_named_and_the_context_is_given_up() {
    let Some(device) = testing::gpu("a_failed_kernel_is_named_and_the_context_is_given_up") else { return };
    let text =
        "extern \"C\" __global__ void __launch_bounds__(THREADS) stray(unsigned long long a) { *(float*)a = 1; }";
    let source = Source { path: "live/stray.cu", text };
    let spec = KernelSpec::new(source, "stray", &[Tile::new("t32", &[("THREADS", 32)])], Grid::One);
    let (kernel, stream) = (device.kernel(&spec, &spec.tiles[0]).unwrap(), device.stream().unwrap());
    let kept = device.zeros::<f32>(4).unwrap();
    // SAFETY: the kernel's only parameter is an address; the test passes an invalid one on purpose, and the driver reports the fault.
    unsafe { kernel.launch(&stream, kernel.shape(1), &[&16u64]) }.unwrap();
    let error = stream.synchronize().unwrap_err();
    assert!(error.is_sticky(), "{error}");
    let words = error.to_string();
    assert!(words.contains("stray in live/stray.cu") && words.contains("restart the kernel"), "{words}");
    let after = kept.to_vec().unwrap_err();
    assert!(matches!(after, Error::ContextLost(_)), "{after}");
    assert!(device.zeros::<f32>(1).is_err());
}
