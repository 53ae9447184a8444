//! Tests buffers, launches, events and graphs on a real GPU.

use warpbook_device::{Bench, CudaDevice, Error, Kernel, testing};
use warpbook_record::{Grid, KernelSpec, Source, Tile};

const TEXT: &str = r#"
extern "C" __global__ void __launch_bounds__(THREADS) add(float* out, float value, unsigned n) {
    const unsigned i = blockIdx.x * THREADS + threadIdx.x;
    if (i < n) out[i] += value;
}
"#;

fn add_kernel(device: &CudaDevice) -> Kernel {
    let source = Source { path: "live/add.cu", text: TEXT };
    let spec = KernelSpec::new(source, "add", &[Tile::new("t128", &[("THREADS", 128)])], Grid::Cover);
    device.kernel(&spec, &spec.tiles[0]).unwrap()
}

#[test]
fn buffers_keep_their_values() {
    let Some(device) = testing::gpu("buffers_keep_their_values") else { return };
    for len in [0usize, 1, 7, 100_003] {
        let values: Vec<f32> = (0..len).map(|i| i as f32 * 0.5 - 3.0).collect();
        let buffer = device.buffer_from(&values).unwrap();
        assert_eq!(buffer.to_vec().unwrap(), values);
        buffer.fill_bytes(0xff).unwrap();
        assert!(buffer.to_vec().unwrap().iter().all(|v| v.is_nan()));
    }
}

#[test]
fn launches_and_graphs_do_the_same_work() {
    let Some(device) = testing::gpu("launches_and_graphs_do_the_same_work") else { return };
    let (kernel, stream) = (add_kernel(&device), device.stream().unwrap());
    let n = 1000u32;
    let out = device.zeros::<f32>(n as usize + 8).unwrap();
    let shape = kernel.shape(u64::from(n));
    // SAFETY: the arguments match `add(out, value, n)`, and `out` has more than n elements.
    let add = || unsafe { kernel.launch(&stream, shape, &[&out, &2.0f32, &n]) };
    add().unwrap();
    // SAFETY: `out` lives until the last launch of the graph has ended.
    let graph = unsafe { stream.capture(|| (0..3).try_for_each(|_| add())) }.unwrap();
    assert_eq!(graph.nodes(), 3);
    graph.launch(&stream).unwrap();
    graph.launch(&stream).unwrap();
    stream.synchronize().unwrap();
    let values = out.to_vec().unwrap();
    assert!(values[..n as usize].iter().all(|v| *v == 14.0), "{:?}", &values[..4]);
    assert!(values[n as usize..].iter().all(|v| *v == 0.0), "memory behind the array was touched");
    let stats = kernel.stats();
    assert_eq!((&*stats.entry, &*stats.file), ("add", "live/add.cu"));
    assert!(
        stats.registers > 0 && stats.blocks_per_multiprocessor > Some(0) && stats.occupancy > Some(0.0),
        "{stats:?}"
    );
}

#[test]
fn a_capture_that_fails_leaves_the_stream_usable() {
    let Some(device) = testing::gpu("a_capture_that_fails_leaves_the_stream_usable") else { return };
    let stream = device.stream().unwrap();
    // SAFETY: nothing is captured, so the graph accesses no memory.
    let failed = unsafe { stream.capture(|| Err(Error::Cancelled)) };
    assert!(matches!(failed, Err(Error::Cancelled)));
    stream.synchronize().unwrap();
    let (kernel, out) = (add_kernel(&device), device.zeros::<f32>(4).unwrap());
    // SAFETY: the arguments match `add(out, value, n)`, and `out` has n elements.
    unsafe { kernel.launch(&stream, kernel.shape(4), &[&out, &1.0f32, &4u32]) }.unwrap();
    stream.synchronize().unwrap();
    assert_eq!(out.to_vec().unwrap(), [1.0; 4]);
}

#[test]
fn a_launch_that_is_refused_names_kernel_and_shape() {
    let Some(device) = testing::gpu("a_launch_that_is_refused_names_kernel_and_shape") else { return };
    let (kernel, stream) = (add_kernel(&device), device.stream().unwrap());
    let out = device.zeros::<f32>(1).unwrap();
    let mut shape = kernel.shape(1);
    shape.block = [256, 1, 1];
    // SAFETY: the launch is refused before the kernel begins.
    let error = unsafe { kernel.launch(&stream, shape, &[&out, &1.0f32, &1u32]) }.unwrap_err().to_string();
    assert!(error.contains("add in live/add.cu") && error.contains("at most 128 threads"), "{error}");
    shape.block = [128, 1, 1];
    shape.dynamic_shared_bytes = 1 << 20;
    // SAFETY: the launch is refused before the kernel begins.
    let error = unsafe { kernel.launch(&stream, shape, &[&out, &1.0f32, &1u32]) }.unwrap_err();
    assert!(error.to_string().contains("1048576 bytes of dynamic shared memory") && !error.is_sticky(), "{error}");
}

#[test]
fn more_memory_than_there_is_is_refused_before_it_is_asked_for() {
    let Some(device) = testing::gpu("more_memory_than_there_is_is_refused_before_it_is_asked_for") else { return };
    let (free, total) = device.memory().unwrap();
    let error = device.zeros::<f32>((total / 4 + 1) as usize).unwrap_err();
    assert!(matches!(error, Error::OutOfMemory { .. }), "{error}");
    assert!(device.zeros::<u64>(usize::MAX / 4).is_err());
    assert!(device.memory().unwrap().0.abs_diff(free) < 1 << 30);
}

#[test]
fn times_are_positive_and_short_regions_are_batched() {
    let Some(device) = testing::gpu("times_are_positive_and_short_regions_are_batched") else { return };
    let (kernel, stream, out) = (add_kernel(&device), device.stream().unwrap(), device.zeros::<f32>(4).unwrap());
    let bench = Bench { samples: 5, ..Bench::default() };
    let samples = bench
        .cuda(&device, &stream, None, None, || {
            // SAFETY: the arguments match `add(out, value, n)`, and `out` has n elements.
            unsafe { kernel.launch(&stream, kernel.shape(4), &[&out, &1.0f32, &4u32]) }
        })
        .unwrap();
    assert_eq!(samples.us.len(), 5);
    assert!(samples.batch > 1, "{samples:?}");
    assert!(samples.us.iter().all(|us| *us > 0.0 && *us < 1e4), "{samples:?}");
}

#[test]
fn an_index_past_the_last_device_is_an_error() {
    let Some(_device) = testing::gpu("an_index_past_the_last_device_is_an_error") else { return };
    let error = CudaDevice::open(99).unwrap_err().to_string();
    assert!(error.contains("There is no device cuda:99") && error.contains("warpbook devices"), "{error}");
}

#[test]
fn cudarc_alone_launches_next_to_us() {
    use warpbook_device::cudarc::driver::{CudaContext, LaunchConfig, PushKernelArg};
    use warpbook_device::cudarc::nvrtc::Ptx;
    let Some(device) = testing::gpu("cudarc_alone_launches_next_to_us") else { return };
    // As in the first lesson that launches a kernel, this project compiles the kernel and cudarc
    // does everything else.
    let ours = add_kernel(&device);
    let (spec, tile) = (ours.spec(), ours.tile());
    let cubin = device.compiler().unwrap().compile(spec, tile, &device.architecture_of(spec)).unwrap().cubin;
    let n = 1000u32;
    let values = {
        let context = CudaContext::new(device.info().index as usize).unwrap();
        let (stream, module) = (context.default_stream(), context.load_module(Ptx::from_binary(cubin)).unwrap());
        let add = module.load_function("add").unwrap();
        let mut out = stream.clone_htod(&vec![0.5f32; n as usize]).unwrap();
        let shape = LaunchConfig { grid_dim: (n.div_ceil(128), 1, 1), block_dim: (128, 1, 1), shared_mem_bytes: 0 };
        let mut launch = stream.launch_builder(&add);
        launch.arg(&mut out).arg(&2.0f32).arg(&n);
        // SAFETY: the arguments match `add(out, value, n)`, and `out` has n elements.
        unsafe { launch.launch(shape) }.unwrap();
        stream.clone_dtoh(&out).unwrap()
    };
    assert!(values.iter().all(|v| *v == 2.5));
    // cudarc used the device's own context, which still works after cudarc has released it.
    let (out, stream) = (device.zeros::<f32>(8).unwrap(), device.stream().unwrap());
    // SAFETY: the arguments match `add(out, value, n)`, and `out` has 8 elements.
    unsafe { ours.launch(&stream, ours.shape(8), &[&out, &1.0f32, &8u32]) }.unwrap();
    stream.synchronize().unwrap();
    assert_eq!(out.to_vec().unwrap(), [1.0; 8]);
}
