//! Compiled kernels on a device, and their launches.

use crate::compile::parameters::parameter_names;
use crate::cuda::context::{Inner, describe};
use crate::cuda::module::Module;
use crate::cuda::stream::Keep;
use crate::emulator::{self, EmulatedKernel, Emulator};
use crate::{Buffer, Compiled, CudaDevice, DevicePtr, Error, Result, Slice, Stream};
use cudarc::driver::result;
use cudarc::driver::sys::{self, CUfunction_attribute_enum as Attribute};
use std::any::Any;
use std::ffi::c_void;
use std::sync::Arc;
use warpbook_emulator::Cause;
use warpbook_kernels::{Launch, over_items, over_tiles};
use warpbook_record::{KernelSpec, KernelStats, Tile};

/// A kernel argument, passed to the driver as a pointer to its bytes.
///
/// # Safety
/// `as_arg` must point to a value of the type that the kernel declares. The value must live as long as `self`, have `arg_bytes` bytes, and contain no padding.
pub unsafe trait KernelArg {
    /// Returns a pointer to the argument's value.
    fn as_arg(&self) -> *mut c_void;

    /// Returns the size of the value in bytes, which the emulator needs.
    fn arg_bytes(&self) -> usize {
        size_of_val(self)
    }

    /// Returns an owner of the memory that the argument points to; a graph that captures the launch keeps it. `None` for plain values and for pointers that own
    /// nothing.
    fn owner(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        None
    }
}

macro_rules! scalar_args {
    ($($t:ty),*) => {
        $(
            // SAFETY: `as_arg` points to the number itself, which has no padding.
            unsafe impl KernelArg for $t {
                fn as_arg(&self) -> *mut c_void {
                    std::ptr::from_ref(self).cast_mut().cast()
                }
            }
        )*
    };
}
scalar_args!(f32, f64, u8, u16, u32, u64, i8, i16, i32, i64, half::f16, half::bf16, DevicePtr);

// SAFETY: `as_arg` points to the address of the first element, an integer of 64 bits, which the kernel receives as a pointer.
unsafe impl<T> KernelArg for Slice<T> {
    fn as_arg(&self) -> *mut c_void {
        (&raw const self.address).cast_mut().cast()
    }

    fn arg_bytes(&self) -> usize {
        size_of::<u64>()
    }

    fn owner(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        Some(self.memory().clone())
    }
}

// SAFETY: all methods are forwarded to the slice in the buffer, which implements this trait correctly.
unsafe impl<T> KernelArg for Buffer<T> {
    fn as_arg(&self) -> *mut c_void {
        (**self).as_arg()
    }

    fn arg_bytes(&self) -> usize {
        (**self).arg_bytes()
    }

    fn owner(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        (**self).owner()
    }
}

/// Options of a launch in addition to its shape.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LaunchOptions {
    /// True if the kernel may begin before its predecessor on the stream has ended; the kernel itself must then wait for its predecessor.
    pub programmatic: bool,
    /// True for a cooperative launch, in which all blocks must be resident at once.
    pub cooperative: bool,
    /// Number of blocks per cluster, along x.
    pub cluster: Option<u32>,
}

/// An observer of kernel launches. A graph that captures a launch keeps the observer.
pub(crate) trait LaunchWatch: Any + Send + Sync {
    /// Called when a kernel with this row is launched, or captured into a graph.
    fn launched(&self, spec: &KernelSpec, shape: Launch, captured: bool);
}

/// A kernel's code on its device.
#[derive(Clone)]
enum Code {
    Driver { module: Arc<Module>, function: sys::CUfunction },
    Emulated(Arc<EmulatedKernel>),
}

/// A compiled kernel on a device.
#[derive(Clone)]
pub struct Kernel {
    device: Arc<Inner>,
    code: Code,
    name: Arc<str>,
    stats: KernelStats,
    spec: KernelSpec,
    tile: Tile,
    max_threads: u32,
    /// Number of blocks per cluster, if the tile uses clusters.
    cluster: Option<u32>,
    /// Observer that is told of each launch of the kernel.
    watch: Option<Arc<dyn LaunchWatch>>,
}

// SAFETY: the handles of a module and of its functions may be used from any thread on which their context is current.
unsafe impl Send for Kernel {}
// SAFETY: a shared kernel is only read.
unsafe impl Sync for Kernel {}

impl std::fmt::Debug for Kernel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Kernel({} of {}, {})", self.name, self.spec.file, self.tile.id)
    }
}

impl Kernel {
    pub(crate) fn load(device: &CudaDevice, spec: &KernelSpec, tile: &Tile, compiled: &Compiled) -> Result<Self> {
        let inner = &device.0;
        inner.bind()?;
        let module = Module::load(inner, &compiled.cubin, &spec.path())?;
        let function = module
            .function(&spec.entry)
            .map_err(|e| inner.error(format!("Finding {} in {}", spec.entry, spec.path()), e))?;
        let mut stats = compiled.stats_of(&spec.entry).cloned().unwrap_or_default();
        let attribute = |a| {
            // SAFETY: the function belongs to `module`, which is loaded.
            let value = unsafe { result::function::get_function_attribute(function, a) };
            value.map(i32::unsigned_abs).map_err(|e| inner.error("Asking for the kernel's limits", e))
        };
        // Recent chips reserve a kilobyte of shared memory per block. The cubin includes it, but the driver's count does not.
        stats.static_shared_bytes = attribute(Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?;
        let max_threads = attribute(Attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?;
        let shape = device.launch_shape(spec, tile, u64::MAX >> 16);
        let threads = shape.block.iter().product::<u32>();
        if shape.dynamic_shared_bytes > 48 << 10 {
            module.allow_shared(function, shape.dynamic_shared_bytes).map_err(|e| {
                inner.error(format!("Asking for {} bytes of shared memory", shape.dynamic_shared_bytes), e)
            })?;
        }
        let (blocks, occupancy) = fit(inner, function, threads, shape.dynamic_shared_bytes)?;
        stats.block = Some(shape.block);
        stats.dynamic_shared_bytes = shape.dynamic_shared_bytes;
        stats.blocks_per_multiprocessor = Some(blocks);
        stats.occupancy = Some(occupancy);
        let name = Arc::from(format!("{} in {}", spec.entry, spec.path()));
        let (device, spec, tile) = (inner.clone(), spec.clone(), tile.clone());
        let code = Code::Driver { module, function };
        let cluster = u32::try_from(tile.cluster_blocks()).ok().filter(|blocks| *blocks > 1);
        Ok(Self { device, code, name, stats, spec, tile, max_threads, cluster, watch: None })
    }

    /// Compiles a kernel for the emulator. Registers and shared memory are taken from machine code for the GPU architecture that it emulates.
    pub(crate) fn emulate(device: &CudaDevice, emulator: &Emulator, spec: &KernelSpec, tile: &Tile) -> Result<Self> {
        let compiler = device.compiler()?;
        let ptx = compiler.compile_to_ptx(spec, tile, emulator::VIRTUAL)?;
        let names = parameter_names(&spec.source, &spec.entry);
        let kernel = emulator.kernel(&ptx, &spec.entry, &spec.path(), &names)?;
        let compiled = compiler.compile(spec, tile, &device.architecture_of(spec))?;
        let mut stats = compiled.stats_of(&spec.entry).cloned().unwrap_or_default();
        let shape = device.launch_shape(spec, tile, u64::MAX >> 16);
        let threads = shape.block.iter().product::<u32>();
        let (blocks, occupancy) = emulator::fit(threads, stats.static_shared_bytes + shape.dynamic_shared_bytes);
        stats.block = Some(shape.block);
        stats.dynamic_shared_bytes = shape.dynamic_shared_bytes;
        (stats.blocks_per_multiprocessor, stats.occupancy) = (Some(blocks), Some(occupancy));
        Ok(Self {
            device: device.0.clone(),
            code: Code::Emulated(Arc::new(kernel)),
            name: Arc::from(format!("{} in {}", spec.entry, spec.path())),
            stats,
            spec: spec.clone(),
            tile: tile.clone(),
            // The emulator checks the kernel's own limit, and refuses launches that exceed it.
            max_threads: u32::MAX,
            cluster: None,
            watch: None,
        })
    }

    /// Returns the kernel with an observer of its launches attached.
    pub(crate) fn watched(self, watch: Arc<dyn LaunchWatch>) -> Self {
        Self { watch: Some(watch), ..self }
    }

    /// Returns the kernel's module.
    ///
    /// # Errors
    /// Returns an error if the kernel is emulated.
    pub(crate) fn module(&self) -> Result<&Arc<Module>> {
        match &self.code {
            Code::Driver { module, .. } => Ok(module),
            Code::Emulated(_) => Err(Error::NotEmulated("X-rays")),
        }
    }

    /// Returns the kernel's registers, shared memory and occupancy, from the compiler and the device.
    #[must_use]
    pub fn stats(&self) -> &KernelStats {
        &self.stats
    }

    /// Returns the kernel's row in the catalogue of kernels.
    #[must_use]
    pub fn spec(&self) -> &KernelSpec {
        &self.spec
    }

    /// Returns the tile with which the kernel was compiled.
    #[must_use]
    pub fn tile(&self) -> &Tile {
        &self.tile
    }

    /// Returns the shape of a launch over this many items.
    #[must_use]
    pub fn shape(&self, items: u64) -> Launch {
        over_items(&self.spec, &self.tile, items, self.device.info.multiprocessors)
    }

    /// Returns the shape of a launch over the tiles of an `m` x `n` matrix.
    #[must_use]
    pub fn tiles_shape(&self, m: u64, n: u64) -> Launch {
        over_tiles(&self.spec, &self.tile, m, n, self.device.info.multiprocessors)
    }

    /// Allows launches with this many bytes of dynamic shared memory per block, if that exceeds the tile's amount, and recomputes the occupancy.
    ///
    /// # Errors
    /// Returns an error if `bytes` exceeds the device's limit per block.
    pub fn reserve_shared(&mut self, bytes: u32) -> Result<()> {
        let device = &self.device;
        let threads = self.stats.block.map_or(1, |b| b.iter().product::<u32>());
        let (blocks, occupancy) = match &self.code {
            Code::Driver { module, function } => {
                device.bind()?;
                let what = || format!("Asking for {bytes} bytes of shared memory for {}", self.name);
                module.allow_shared(*function, bytes).map_err(|e| device.error(what(), e))?;
                fit(device, *function, threads, bytes)?
            }
            Code::Emulated(_) => emulator::fit(threads, self.stats.static_shared_bytes + bytes),
        };
        self.stats.blocks_per_multiprocessor = Some(blocks);
        self.stats.occupancy = Some(occupancy);
        self.stats.dynamic_shared_bytes = bytes;
        Ok(())
    }

    /// Returns the number of clusters of `blocks` blocks that can be resident at once in a launch of this shape; 0 if the device does not support clusters of
    /// that size. This call permits launches with clusters of more than eight blocks, which not every chip supports, so check the result before launching.
    ///
    /// # Errors
    /// If the driver reports an error.
    pub fn resident_clusters(&self, blocks: u32, shape: Launch) -> Result<u32> {
        let device = &self.device;
        let Code::Driver { function, .. } = &self.code else { return Ok(0) };
        device.bind()?;
        if device.info.compute_capability.is_none_or(|cc| cc < (9, 0)) {
            return Ok(0);
        }
        if blocks > 8 {
            // SAFETY: the function belongs to this kernel's module, which is loaded.
            let allowed = unsafe {
                result::function::set_function_attribute(
                    *function,
                    Attribute::CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED,
                    1,
                )
            };
            if allowed.is_err() {
                return Ok(0);
            }
        }
        let mut attributes = attributes(LaunchOptions { cluster: Some(blocks), ..LaunchOptions::default() });
        let config = config(Launch { grid: [blocks, 1, 1], ..shape }, std::ptr::null_mut(), &mut attributes);
        let mut clusters = 0;
        // SAFETY: `clusters` and `config` are live, and the function belongs to this kernel's module, which is loaded.
        let status = unsafe { sys::cuOccupancyMaxActiveClusters(&raw mut clusters, *function, &raw const config) };
        match status.result() {
            Ok(()) => Ok(clusters.unsigned_abs()),
            // The chip does not support this cluster size at all.
            Err(e) if e.0 == sys::CUresult::CUDA_ERROR_INVALID_CLUSTER_SIZE => Ok(0),
            Err(e) => Err(device.error(format!("Asking how many clusters of {blocks} blocks fit"), e)),
        }
    }

    /// Queues a launch. On a stream of dependent launches (see [`Stream::make_dependent`]), a kernel that waits for its predecessor by itself may begin before
    /// the predecessor has ended.
    ///
    /// # Errors
    /// Returns an error if the launch is refused. If the kernel itself fails, the error appears when the stream is waited for.
    ///
    /// # Safety
    /// The arguments must match the kernel's parameters, in order. Their arrays must stay allocated, and be as large as the kernel assumes, until the launch
    /// has ended. A captured launch lasts as long as its graph, which keeps the kernel and any arrays passed as [`Slice`] or [`Buffer`].
    pub unsafe fn launch(&self, stream: &Stream, shape: Launch, args: &[&dyn KernelArg]) -> Result<()> {
        let programmatic = self.spec.waits && stream.is_dependent() && self.device.has_programmatic_launch();
        let options = LaunchOptions { programmatic, cluster: self.cluster, ..LaunchOptions::default() };
        // SAFETY: the caller guarantees what this function requires of the arguments. A kernel that may start early waits for its predecessor before it needs
        // anything from it.
        unsafe { self.launch_with(stream, shape, options, args) }
    }

    /// Queues a launch with options.
    ///
    /// # Errors
    /// The errors of [`Kernel::launch`].
    ///
    /// # Safety
    /// The requirements of [`Kernel::launch`].
    pub unsafe fn launch_with(
        &self,
        stream: &Stream,
        shape: Launch,
        options: LaunchOptions,
        args: &[&dyn KernelArg],
    ) -> Result<()> {
        let refused = |why: String, sticky| Error::Launch {
            kernel: self.name.to_string(),
            grid: shape.grid,
            block: shape.block,
            shared: shape.dynamic_shared_bytes,
            why,
            sticky,
        };
        let device = &self.device;
        let (module, function) = match &self.code {
            Code::Driver { module, function } => (module, *function),
            Code::Emulated(kernel) => {
                // SAFETY: `KernelArg` requires that `as_arg` points to a value of `arg_bytes` bytes without padding.
                let bytes =
                    |a: &&dyn KernelArg| unsafe { std::slice::from_raw_parts(a.as_arg().cast::<u8>(), a.arg_bytes()) };
                let arguments: Vec<_> = args.iter().map(|a| emulator::argument(bytes(a))).collect();
                let emulator = device.emulator().ok_or(Error::NotEmulated("Kernels of another device"))?;
                return emulator.launch(kernel, shape, options.cooperative, &arguments).map_err(|fault| {
                    match fault.cause {
                        Cause::Unsupported => Error::Unsupported {
                            what: "The emulator".into(),
                            why: format!("cannot run {}: {fault}", self.name),
                        },
                        _ => Error::Fault { kernel: self.name.to_string(), fault: Box::new(fault) },
                    }
                });
            }
        };
        device.bind()?;
        let threads = shape.block.iter().product::<u32>();
        if threads > self.max_threads {
            return Err(refused(format!("it was compiled for at most {} threads a block", self.max_threads), false));
        }
        let mut attributes = attributes(options);
        let config = config(shape, stream.raw, &mut attributes);
        let queueing = stream.queueing()?;
        // SAFETY: the handles are live, the pointers outlive the call, and the caller guarantees that they point to valid arguments.
        let status = with_pointers(args, |pointers| unsafe {
            sys::cuLaunchKernelEx(&raw const config, function, pointers, std::ptr::null_mut())
        });
        status.result().map_err(|e| refused(describe(e), device.note(e)))?;
        if let Some(watch) = &self.watch {
            watch.launched(&self.spec, shape, queueing.is_captured());
        }
        queueing.launched(&self.name, shape, |captured| {
            captured.keep(module.clone() as Keep);
            self.watch.iter().for_each(|watch| captured.keep(watch.clone() as Keep));
            args.iter().filter_map(|a| a.owner()).for_each(|owner| captured.keep(owner));
        });
        Ok(())
    }
}

/// Number of arguments that fit on the stack; few launches have more.
const FEW: usize = 24;

/// Calls `call` with pointers to a launch's arguments. Short lists are kept on the stack: a launch costs the host only a few microseconds, and an allocation
/// would add several per cent to that.
fn with_pointers<R>(args: &[&dyn KernelArg], call: impl FnOnce(*mut *mut c_void) -> R) -> R {
    if args.len() > FEW {
        let mut many: Vec<*mut c_void> = args.iter().map(|a| a.as_arg()).collect();
        return call(many.as_mut_ptr());
    }
    let mut few = [std::ptr::null_mut(); FEW];
    few.iter_mut().zip(args).for_each(|(pointer, arg)| *pointer = arg.as_arg());
    call(few.as_mut_ptr())
}

/// Converts a launch to the driver's form, which points to `attributes`.
fn config(shape: Launch, stream: sys::CUstream, attributes: &mut [sys::CUlaunchAttribute]) -> sys::CUlaunchConfig {
    sys::CUlaunchConfig {
        gridDimX: shape.grid[0],
        gridDimY: shape.grid[1],
        gridDimZ: shape.grid[2],
        blockDimX: shape.block[0],
        blockDimY: shape.block[1],
        blockDimZ: shape.block[2],
        sharedMemBytes: shape.dynamic_shared_bytes,
        hStream: stream,
        attrs: attributes.as_mut_ptr(),
        numAttrs: attributes.len() as u32,
    }
}

/// Returns the number of blocks with `threads` threads that fit on a multiprocessor, and the resulting occupancy from 0 to 1.
fn fit(device: &Inner, function: sys::CUfunction, threads: u32, dynamic_shared_bytes: u32) -> Result<(u32, f64)> {
    // SAFETY: the caller passes a function of a module that is loaded.
    let blocks = unsafe {
        result::occupancy::max_active_block_per_multiprocessor(
            function,
            threads.cast_signed(),
            dynamic_shared_bytes as usize,
        )
    }
    .map_err(|e| device.error("Asking for the kernel's occupancy", e))?
    .unsigned_abs();
    let most = device
        .context()?
        .attribute(sys::CUdevice_attribute_enum::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR)
        .map_err(|e| device.error("Asking for the device's limits", e))?;
    Ok((blocks, f64::from(blocks * threads) / f64::from(most.max(1))))
}

fn attributes(options: LaunchOptions) -> Vec<sys::CUlaunchAttribute> {
    use sys::{CUlaunchAttributeID_enum as Id, CUlaunchAttributeValue as Value};
    let attribute = |id, set: &dyn Fn(&mut Value)| {
        let mut value = Value { pad: [0; 64] };
        set(&mut value);
        sys::CUlaunchAttribute { id, pad: [0; 4], value }
    };
    let mut all = Vec::new();
    if options.programmatic {
        all.push(attribute(Id::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, &|v| {
            v.programmaticStreamSerializationAllowed = 1;
        }));
    }
    if options.cooperative {
        all.push(attribute(Id::CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &|v| v.cooperative = 1));
    }
    if let Some(blocks) = options.cluster {
        all.push(attribute(Id::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &|v| {
            v.clusterDim = sys::CUlaunchAttributeValue_union__bindgen_ty_1 { x: blocks, y: 1, z: 1 };
        }));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::{bf16, f16};

    #[test]
    fn pointers_are_those_of_the_arguments_however_many() {
        for count in [0, 1, FEW - 1, FEW, FEW + 1, 3 * FEW] {
            let values: Vec<u32> = (0..count as u32).collect();
            let args: Vec<&dyn KernelArg> = values.iter().map(|v| v as &dyn KernelArg).collect();
            // SAFETY: there is one pointer for each argument, and the arguments are live.
            let read = |pointers: *mut *mut c_void, i| unsafe { (*pointers.add(i)).cast::<u32>().read() };
            let seen: Vec<u32> = with_pointers(&args, |pointers| (0..count).map(|i| read(pointers, i)).collect());
            assert_eq!(seen, values);
        }
    }

    #[test]
    fn plain_arguments_are_their_bytes_and_own_nothing() {
        fn check<T: KernelArg + Copy + PartialEq + std::fmt::Debug>(value: T) {
            // SAFETY: `as_arg` points to a value of type T.
            let read = unsafe { value.as_arg().cast::<T>().read() };
            assert_eq!(read, value);
            assert!(value.owner().is_none());
        }
        check(1.5f32);
        check(-2.5f64);
        check(0xfeu8);
        check(0xfedcu16);
        check(0xfedc_ba98u32);
        check(0xfedc_ba98_7654_3210u64);
        check(-7i8);
        check(-777i16);
        check(-77_777i32);
        check(-7_777_777_777i64);
        check(f16::from_f32(0.1));
        check(bf16::from_f32(0.1));
        check(DevicePtr(256).offset(4));
    }
}
