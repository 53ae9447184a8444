//! Tests the marks of a kernel on a real GPU: the records, and the error if a kernel does not end.

use warpbook_device::{CudaDevice, Error, Kernel, Stream, Xray, testing};
use warpbook_record::{Grid, KernelSpec, Source, Tile};

/// Source of a kernel that waits for `cycles` ticks of the SM's clock between two marks.
const TEXT: &str = r#"
#include "xray.cuh"
extern "C" __global__ void __launch_bounds__(THREADS) spin(long long cycles) {
    MARK_BEGIN(spin);
    MARK(wait);
    const long long begun = clock64();
    while (clock64() - begun < cycles) {}
    MARK(end);
}
"#;

fn spin(device: &CudaDevice) -> Kernel {
    let source = Source { path: "live/spin.cu", text: TEXT };
    let spec = KernelSpec::new(source, "spin", &[Tile::new("t64", &[("THREADS", 64)])], Grid::Cover);
    device.kernel(&spec, &spec.tiles[0]).unwrap()
}

fn launch(kernel: &Kernel, stream: &Stream, cycles: i64) -> warpbook_device::Result<()> {
    // SAFETY: the argument matches `spin(cycles)`, which accesses no memory except for its marks.
    unsafe { kernel.launch(stream, kernel.shape(8 * 64), &[&cycles]) }
}

#[test]
fn warps_are_recorded_and_a_kernel_that_does_not_end_is_named() {
    let Some(device) = testing::gpu("warps_are_recorded_and_a_kernel_that_does_not_end_is_named") else { return };
    let stream = device.stream().unwrap();
    let xray = Xray::begin(&device).unwrap();
    let kernel = spin(&device);
    xray.pause();
    assert_eq!(xray.marked(), 1);
    launch(&kernel, &stream, 1000).unwrap();
    stream.synchronize().unwrap();
    // The launch has 8 blocks of two warps.
    let bytes = xray.allocate(1 << 20).unwrap();
    assert!((16 * 8 * 8..=1 << 20).contains(&bytes), "{bytes}");
    let cycles = 100_000u64;
    let marks = xray.record(&stream, 10.0, || launch(&kernel, &stream, cycles as i64)).unwrap();
    let [of] = &marks.kernels[..] else { panic!("{:?}", marks.kernels) };
    assert_eq!((&*of.entry, of.blocks, of.warps, of.marks.len()), ("spin", 8, 2, 16));
    for (block, warp, marked) in &of.marks {
        let [(0, _), (2, wait), (1, end)] = marked.marks[..] else { panic!("{block} {warp}: {marked:?}") };
        assert!(end - wait >= cycles && end - wait < 20 * cycles, "{block} {warp}: {} cycles", end - wait);
    }
    // The kernel takes several seconds; the test stops waiting and gives up the device long before
    // that.
    let error = xray.record(&stream, 0.2, || launch(&kernel, &stream, 4_000_000_000)).unwrap_err();
    let words = error.to_string();
    assert!(matches!(error, Error::StillRunning { .. }) && error.is_sticky(), "{words}");
    assert!(words.contains("was still running after 0.2 s"), "{words}");
}
