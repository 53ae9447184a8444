//! An emulated GPU in the place of a driver: its memory, and kernels that have ended when their launch returns.

use crate::{Error, LaunchOptions, Result};
use std::collections::HashMap;
use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};
use warpbook_emulator::{Argument, Fault, Gpu, Kernel, LIMITS, Launch, Loaded, Module};
use warpbook_kernels::Launch as Shape;
use warpbook_record::{DeviceInfo, DeviceKind};

/// The virtual architecture that kernels are compiled for.
pub(crate) const VIRTUAL: &str = "compute_80";
/// Instructions of warps after which a kernel is taken for endless; a core runs them in about ten seconds.
const BUDGET: u64 = 1 << 25;

/// The emulated GPU of a device.
#[derive(Debug, Default)]
pub(crate) struct Emulator {
    gpu: Mutex<Gpu>,
    /// Modules by their PTX: kernels with the same code share its variables.
    modules: Mutex<HashMap<String, Loaded>>,
}

/// Name and limits of the emulated GPU.
pub(crate) fn info() -> DeviceInfo {
    let (major, minor) = LIMITS.capability;
    let sms = LIMITS.multiprocessors;
    DeviceInfo {
        kind: DeviceKind::Emulator,
        index: 0,
        name: format!("Emulator of a GPU with compute capability {major}.{minor} and {sms} SMs"),
        memory_bytes: LIMITS.global_bytes,
        multiprocessors: sms,
        compute_capability: Some(LIMITS.capability),
        l2_bytes: None,
        shared_bytes_per_multiprocessor: Some(LIMITS.multiprocessor_shared_bytes),
        shared_bytes_per_block: Some(LIMITS.block_shared_bytes),
        registers_per_multiprocessor: None,
        max_sm_mhz: None,
        max_memory_mhz: None,
    }
}

impl Emulator {
    fn gpu(&self) -> MutexGuard<'_, Gpu> {
        self.gpu.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn allocate(&self, bytes: usize) -> Result<u64> {
        self.gpu().allocate(bytes.max(1) as u64).map_err(|why| failed("Allocating memory", &why))
    }

    pub(crate) fn free(&self, address: u64) {
        self.gpu().free(address);
    }

    pub(crate) fn write(&self, address: u64, bytes: &[u8]) -> Result<()> {
        self.gpu().write(address, bytes).map_err(|why| failed("Copying to the device", &why))
    }

    pub(crate) fn read(&self, address: u64, bytes: &mut [u8]) -> Result<()> {
        self.gpu().read(address, bytes).map_err(|why| failed("Copying from the device", &why))
    }

    /// Loads PTX and decodes one of its entries; an error names `path`.
    pub(crate) fn kernel(&self, ptx: &str, entry: &str, path: &str) -> Result<Kernel> {
        let refused =
            |why: String| Error::Unsupported { what: "The emulator".into(), why: format!("cannot run {path}: {why}") };
        let mut modules = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        if !modules.contains_key(ptx) {
            let module = Module::parse(ptx).map_err(|why| refused(why.to_string()))?;
            let loaded = self.gpu().load(&module).map_err(|why| failed(&format!("Loading {path}"), &why))?;
            modules.insert(ptx.to_owned(), loaded);
        }
        modules[ptx].kernel(entry).map_err(|why| refused(why.to_string()))
    }

    /// Runs a kernel to its end, and prints what it prints.
    pub(crate) fn launch(
        &self,
        kernel: &Kernel,
        shape: Shape,
        options: LaunchOptions,
        arguments: &[Argument],
    ) -> Result<(), Fault> {
        let launch = Launch {
            grid: shape.grid,
            block: shape.block,
            dynamic_shared: shape.dynamic_shared_bytes.into(),
            is_cooperative: options.cooperative,
            budget: BUDGET,
            ..Launch::new(1, 1)
        };
        let report = self.gpu().launch(kernel, &launch, arguments)?;
        // Like a kernel's `printf` on a GPU; a closed output is nobody's concern.
        let _ = std::io::stdout().write_all(report.printed.as_bytes());
        Ok(())
    }
}

/// An argument of a launch with these bytes; one of eight bytes may be an address, which a fault is told by.
pub(crate) fn argument(bytes: &[u8]) -> Argument {
    match <[u8; 8]>::try_from(bytes) {
        Ok(eight) => Argument::U64(u64::from_le_bytes(eight)),
        Err(_) => Argument::Bytes(bytes.to_vec()),
    }
}

/// Returns how many blocks of so many threads and bytes of shared memory are resident on a multiprocessor, and the share of its threads that they are.
pub(crate) fn fit(threads: u32, shared_bytes: u32) -> (u32, f64) {
    let by_threads = LIMITS.multiprocessor_threads / threads.next_multiple_of(32).max(32);
    let by_shared = LIMITS.multiprocessor_shared_bytes / (u64::from(shared_bytes) + LIMITS.reserved_shared_bytes);
    let blocks = by_threads.min(u32::try_from(by_shared).unwrap_or(u32::MAX)).min(LIMITS.multiprocessor_blocks);
    (blocks, f64::from(blocks * threads) / f64::from(LIMITS.multiprocessor_threads))
}

fn failed(what: &str, why: &Fault) -> Error {
    Error::Cuda { what: format!("{what} in the emulator"), why: why.to_string(), sticky: false }
}
