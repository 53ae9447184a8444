//! Helpers for tests that need a GPU, or files whose location is known only at run time.

pub use crate::cuda::driver::THROUGH_CUDARC as DRIVER_FUNCTIONS;
use crate::{Choice, Clocks, CudaDevice, Device, KernelMarks, Marks, Result};
use cudarc::driver::{CudaModule, CudaStream, DriverError, LaunchConfig, PushKernelArg};
use cudarc::nvrtc::Ptx;
use std::fmt::Display;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use warpbook_kernels::Launch;

/// Returns a GPU. If there is none, reports the test as skipped and returns `None`.
///
/// # Panics
/// Panics if there is no GPU and `WARPBOOK_REQUIRE_GPU=1` is set.
#[must_use]
#[track_caller]
pub fn gpu(test: &str) -> Option<CudaDevice> {
    match Device::open(Choice::Cuda(0)) {
        Ok(Device::Cuda(device)) => Some(device),
        Ok(Device::Cpu(_) | Device::Emulator(_)) => unreachable!("a CUDA device was asked for"),
        Err(why) => {
            skip(test, "needs a GPU", why);
            None
        }
    }
}

/// Returns all GPUs in order. If there are none, reports the test as skipped and returns an empty list.
///
/// # Panics
/// Panics under the same condition as [`gpu`].
#[must_use]
#[track_caller]
pub fn gpus(test: &str) -> Vec<CudaDevice> {
    let Some(first) = gpu(test) else { return Vec::new() };
    let further = (1..).map_while(|index| match Device::open(Choice::Cuda(index)) {
        Ok(Device::Cuda(device)) => Some(device),
        _ => None,
    });
    std::iter::once(first).chain(further).collect()
}

/// Returns two GPUs, or `None` on a machine with fewer. Having only one GPU skips the test and is never a failure.
///
/// # Panics
/// Panics under the same condition as [`gpu`].
#[must_use]
#[track_caller]
pub fn two_gpus(test: &str) -> Option<[CudaDevice; 2]> {
    let mut all = gpus(test).into_iter();
    let (first, second) = (all.next()?, all.next());
    if second.is_none() {
        println!("skipped: {test} needs two GPUs");
    }
    Some([first, second?])
}

/// Kernels that the driver has compiled from PTX, together with their own stream.
pub struct PtxModule {
    device: CudaDevice,
    module: Arc<CudaModule>,
    stream: Arc<CudaStream>,
}

impl PtxModule {
    /// Compiles PTX for a GPU. Several threads may do this at the same time.
    ///
    /// # Errors
    /// Returns an error if the driver refuses the PTX, or the device is emulated.
    pub fn load(device: &CudaDevice, ptx: &str) -> Result<Self> {
        let failed = |what: &'static str| move |why: DriverError| device.0.error(what, why);
        device.0.bind()?;
        let context = device.0.context()?;
        let stream = context.new_stream().map_err(failed("Making a stream"))?;
        let module = context.load_module(Ptx::from_src(ptx)).map_err(failed("Compiling PTX"))?;
        Ok(Self { device: device.clone(), module, stream })
    }

    /// Copies the arrays to the GPU, runs a kernel that takes their addresses, and returns the contents of the arrays afterwards.
    ///
    /// # Errors
    /// If the driver reports an error, or there is no such kernel.
    ///
    /// # Safety
    /// The kernel must take one address for each array and no other argument, and must not access anything outside the arrays.
    pub unsafe fn run(&self, entry: &str, shape: Launch, arrays: &[&[u8]]) -> Result<Vec<Vec<u8>>> {
        let failed = |what: &'static str| move |why: DriverError| self.device.0.error(what, why);
        let function = self.module.load_function(entry).map_err(failed("Finding a kernel"))?;
        let on_gpu = arrays.iter().map(|bytes| self.stream.clone_htod(*bytes));
        let mut on_gpu = on_gpu.collect::<std::result::Result<Vec<_>, _>>().map_err(failed("Copying to the GPU"))?;
        let (grid, block) = (shape.grid.into(), shape.block.into());
        let config = LaunchConfig { grid_dim: grid, block_dim: block, shared_mem_bytes: shape.dynamic_shared_bytes };
        let mut launch = self.stream.launch_builder(&function);
        for array in &mut on_gpu {
            launch.arg(array);
        }
        // SAFETY: the caller guarantees that the kernel takes these arguments, and the arrays live until they are copied back.
        unsafe { launch.launch(config) }.map_err(failed("Launching a kernel"))?;
        let back = on_gpu.iter().map(|array| self.stream.clone_dtoh(array));
        back.collect::<std::result::Result<_, _>>().map_err(failed("Copying from the GPU"))
    }
}

/// Returns a lock for tests that must not run at the same time as others: tests with NCCL, whose GPUs wait for each other while another
/// test could keep one of them busy, and tests that compare clocks and times.
pub fn one_at_a_time() -> MutexGuard<'static, ()> {
    static TESTS: Mutex<()> = Mutex::new(());
    TESTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reports that a test cannot run, and what it needs. The report goes to standard output and, if `WARPBOOK_SKIP_LOG` names a file, into
/// a line of that file, with a tab between the test's name and the requirement. The test should return afterwards.
///
/// # Panics
/// Panics if `WARPBOOK_REQUIRE_GPU=1` is set, because then no test may be skipped.
#[track_caller]
pub fn skip(test: &str, needs: &str, why: impl Display) {
    assert!(std::env::var("WARPBOOK_REQUIRE_GPU").as_deref() != Ok("1"), "{test} {needs}: {why}");
    println!("skipped: {test} {needs}: {why}");
    append(&format!("{test}\t{needs}\n"));
}

/// Returns the folder of the package whose tests are running; callers pass `env!("CARGO_MANIFEST_DIR")` as `compiled`. The variable's
/// value at run time takes precedence, because test executables may be packed and run elsewhere.
#[must_use]
pub fn manifest_dir(compiled: &str) -> PathBuf {
    std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| compiled.into(), PathBuf::from)
}

/// Returns marks of kernels with known clocks that run at 2 ticks per nanosecond. Each SM is given as (id, lead of its clock, error of
/// that lead), in ticks.
#[must_use]
pub fn marks(kernels: Vec<KernelMarks>, sms: &[(u32, f64, f64)]) -> Marks {
    Marks { kernels, unmarked: Vec::new(), clocks: Clocks::known(sms, 2.0) }
}

fn append(line: &str) {
    let Some(path) = std::env::var_os("WARPBOOK_SKIP_LOG") else { return };
    // Each line is written with a single call, because tests of one process share the file.
    let written =
        std::fs::OpenOptions::new().create(true).append(true).open(path).and_then(|mut f| f.write_all(line.as_bytes()));
    if let Err(why) = written {
        println!("the log of skipped tests cannot be written: {why}");
    }
}
