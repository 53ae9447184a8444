//! Tests a graph whose kernel writes out of bounds. The test has its own executable, because such a kernel makes the
//! process's CUDA context unusable.

mod common;

use common::{axpy, kernel};
use warpbook_device::{Error, testing};

#[test]
fn a_failed_graph_is_named_with_its_kernels() {
    let Some(device) = testing::gpu("a_failed_graph_is_named_with_its_kernels") else { return };
    let stream = device.stream().unwrap();
    let (stray, add) = (kernel(&device, "stray", 32), kernel(&device, "axpy", 32));
    let (x, y) = (device.zeros::<f32>(4).unwrap(), device.zeros::<f32>(4).unwrap());
    let host = device.pinned::<f32>(4).unwrap();
    let graph = stream.capture_owning("bad step", (), |()| {
        // SAFETY: the kernel's only parameter is an address; the test passes an invalid one on purpose, and the driver reports the fault.
        unsafe { stray.launch(&stream, stray.shape(1), &[&16u64]) }?;
        axpy(&add, &stream, &y, &x, 1.0)?;
        stream.copy_to_host(&y, &host)
    });
    let graph = graph.unwrap();
    // The error must not name the kernel that was launched before the graph.
    axpy(&add, &stream, &y, &x, 1.0).unwrap();
    graph.launch(&stream).unwrap();
    let error = stream.synchronize().unwrap_err();
    assert!(error.is_sticky() && matches!(error, Error::Graph { .. }), "{error}");
    let words = error.to_string();
    for part in ["`bad step`", "stray in live/memory.cu and axpy in live/memory.cu", "restart the kernel"] {
        assert!(words.contains(part), "{part}: {words}");
    }
    let after = graph.launch(&stream).unwrap_err();
    assert!(matches!(after, Error::ContextLost(_)), "{after}");
    assert!(host.read().is_err(), "a copy that failed is not taken for one that has ended");
}
