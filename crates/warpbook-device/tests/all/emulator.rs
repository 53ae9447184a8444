//! Tests that the emulated GPU runs a learner's host code like a real one, and that errors about unsupported features
//! name them.

use warpbook_device::{
    Bench, Choice, Counters, Cublas, CublasLt, CudaDevice, Cudnn, Device, Error, Pool, Recorder, Result, Xray,
};
use warpbook_record::{DeviceKind, Grid, KernelSpec, Source, Tile};

fn emulator() -> CudaDevice {
    let Device::Emulator(device) = Device::open(Choice::Emulator).unwrap() else { panic!("another device") };
    device
}

/// Returns the row and the tile of a learner's kernel with 64 threads per block.
fn spec(text: &'static str) -> (KernelSpec, Tile) {
    let tile = Tile::new("t64", &[("THREADS", 64)]);
    (KernelSpec::new(Source { path: "live/mine.cu", text }, "mine", std::slice::from_ref(&tile), Grid::Cover), tile)
}

const SCALE: &str = "
extern \"C\" __global__ void mine(const float* x, float* y, unsigned n, float factor) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = factor * x[i];
}
";

/// Multiplies 1000 numbers by 3 on any device, with the same calls as a notebook.
fn scaled(device: &CudaDevice, text: &'static str) -> Result<Vec<f32>> {
    let x: Vec<f32> = (0..1000u16).map(f32::from).collect();
    let stream = device.stream()?;
    let (from, to) = (device.buffer_from(&x)?, device.zeros::<f32>(x.len())?);
    to.fill_bytes(0xff)?;
    let (spec, tile) = spec(text);
    let kernel = device.kernel(&spec, &tile)?;
    // SAFETY: the arguments match `mine(x, y, n, factor)`, and x and y have n elements.
    unsafe { kernel.launch(&stream, kernel.shape(1000), &[&from, &to, &1000u32, &3.0f32]) }?;
    stream.synchronize()?;
    to.to_vec()
}

#[test]
fn a_learner_s_lines_run_as_on_a_gpu() {
    let device = emulator();
    let y = scaled(&device, SCALE).unwrap();
    assert!(y.iter().enumerate().all(|(i, y)| *y == 3.0 * i as f32), "{y:?}");
    assert_eq!(device.allocated(), 0, "arrays are freed with their owners");
    let info = device.info();
    assert_eq!((info.kind, info.selector().as_str()), (DeviceKind::Emulator, "emulator"));
    assert_eq!(info.selector().parse::<Choice>().unwrap(), Choice::Emulator);
    let (spec, tile) = spec(SCALE);
    let stats = device.kernel(&spec, &tile).unwrap().stats().clone();
    assert!(stats.registers > 0 && stats.blocks_per_multiprocessor == Some(32), "{stats:?}");
}

#[test]
fn arrays_are_copied_filled_and_cut() {
    let device = emulator();
    let stream = device.stream().unwrap();
    let from = device.buffer_from(&[1u32, 2, 3, 4]).unwrap();
    let to = device.zeros::<u32>(4).unwrap();
    stream.copy(&from.range(1..3), &to.range(2..4)).unwrap();
    assert_eq!(to.to_vec().unwrap(), [0, 0, 2, 3]);
    stream.fill_value(&to.range(..2), 7).unwrap();
    stream.fill(&to.range(3..), 1).unwrap();
    let mut read = [0; 4];
    to.read(&mut read).unwrap();
    assert_eq!(read, [7, 7, 2, 0x0101_0101]);
    assert_eq!(device.zeros::<f32>(0).unwrap().to_vec().unwrap(), [0.0; 0]);
    let (free, total) = device.memory().unwrap();
    assert_eq!((total - free, total), (32, 1 << 30));
    let error = device.zeros::<u8>(2 << 30).unwrap_err().to_string();
    assert!(error.contains("Choose a smaller size"), "{error}");
}

#[test]
fn a_fault_names_its_line_and_the_device_goes_on() {
    let device = emulator();
    let error = scaled(&device, SCALE_WITHOUT_GUARD).unwrap_err();
    let Error::Fault { kernel, fault } = &error else { panic!("{error}") };
    assert_eq!(kernel, "mine in live/mine.cu");
    let place = fault.position.as_ref().map(|place| (&*place.file, place.line));
    assert_eq!(place, Some(("live/mine.cu", 4)), "{error}");
    assert!(!error.is_sticky() && scaled(&device, SCALE).is_ok());
    let endless = scaled(
        &device,
        "extern \"C\" __global__ void mine(const float* x, float* y, unsigned n, float f) {\n\
        for (volatile unsigned i = 0; i <= n; ) y[0] = f;\n}",
    );
    assert!(endless.unwrap_err().to_string().contains("mine.cu"), "the loop's line");
}

const SCALE_WITHOUT_GUARD: &str = "
extern \"C\" __global__ void mine(const float* x, float* y, unsigned n, float factor) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = factor * x[i];
}
";

#[test]
fn counts_of_a_checked_launch_have_lanes_on_one_address_and_bytes_by_level() {
    let device = emulator();
    let text = "
extern \"C\" __global__ void mine(const float* x, float* y, unsigned n, float factor) {
    __shared__ float part[64];
    part[threadIdx.x] = 2.0f;
    __syncthreads();
    float v = part[threadIdx.x ^ 1];
    atomicAdd(&y[threadIdx.x / 8], v);
}
";
    let work = || -> Result<Vec<f32>> {
        let y = device.zeros::<f32>(8)?;
        let (stream, (spec, tile)) = (device.stream()?, spec(text));
        let kernel = device.kernel(&spec, &tile)?;
        // SAFETY: the arguments match `mine(x, y, n, factor)`; the kernel does not use x, and y has 8 elements.
        unsafe { kernel.launch(&stream, kernel.shape(64), &[&y, &y, &8u32, &1.0f32]) }?;
        y.to_vec()
    };
    let (y, emulated) = device.checked(work).unwrap();
    assert_eq!(y, [16.0; 8]);
    let line = |number: u32| emulated.lines.iter().find(|line| line.line == number).unwrap();
    let (stored, atomic) = (line(4), line(7));
    assert_eq!((stored.shared_requests, stored.shared_bytes, stored.global_bytes()), (2, 256, 0));
    assert_eq!((atomic.atomics, atomic.lanes_on_one_address, atomic.mean_on_one_address()), (2, 16, Some(8.0)));
    assert_eq!((atomic.global_bytes(), atomic.shared_bytes, atomic.local_bytes), (256, 0, 0));
    let total = emulated.total();
    assert_eq!(total.bytes, total.global_bytes() + total.shared_bytes + total.local_bytes);
}

#[test]
fn what_is_not_emulated_is_refused_by_name() {
    let device = emulator();
    let stream = device.stream().unwrap();
    let check = |refused: Result<()>, expect: &str| match refused {
        Err(error @ Error::NotEmulated(name)) => {
            assert_eq!(name, expect);
            assert!(error.to_string().contains("run this on a GPU"), "{error}");
        }
        other => panic!("{expect}: {other:?}"),
    };
    let nothing = || Ok(());
    check(device.event().map(drop), "Events and times");
    check(Bench::default().cuda(&device, &stream, None, None, nothing).map(drop), "Events and times");
    check(stream.capture_owning("step", (), |()| Ok(())).map(drop), "Graphs");
    check(device.urgent_stream().map(drop), "Streams with a priority");
    check(Pool::new(&device).array::<f32>(1).map(drop), "Pools of memory");
    check(device.pinned::<f32>(1).map(drop), "Page-locked arrays");
    check(Cublas::open(&device).map(drop), "Calls of cuBLAS");
    check(CublasLt::open(&device).map(drop), "Calls of cuBLAS");
    check(Cudnn::open(&device).map(drop), "Calls of cuDNN");
    check(Recorder::start(&device).map(drop), "Recordings of activity");
    check(Counters::open(&device).map(drop), "Hardware counters");
    check(Xray::begin(&device).map(drop), "X-rays");
}
