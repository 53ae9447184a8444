//! Manages kernels compiled with marks, and the memory that they write their marks to.

use crate::cuda::context::Inner;
use crate::cuda::kernel::LaunchWatch;
use crate::cuda::module::Module;
use crate::{Buffer, CudaDevice, Error, Kernel, Result};
use cudarc::driver::{result, sys};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use warpbook_kernels::Launch;
use warpbook_kernels::xray::Marks;
use warpbook_record::{KernelSpec, Tile};

/// Name of the variable in `kernels/xray.cuh` that describes the rings.
const SYMBOL: &str = "xray_rings";
/// Smallest and largest number of records per ring.
const CAPACITY: std::ops::RangeInclusive<u64> = 8..=8192;
/// Size of a record in bytes.
const RECORD: u64 = 8;

/// Records whether kernels are compiled with their marks, and which modules have been compiled with them.
#[derive(Default)]
pub(crate) struct Marking(Mutex<MarkingState>);

#[derive(Default)]
struct MarkingState {
    begun: bool,
    on: bool,
    /// True while a run is being recorded.
    recording: bool,
    marked: Vec<Arc<Marked>>,
    unmarked: Vec<UnmarkedKernel>,
}

/// A kernel without marks that was launched during a recorded run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnmarkedKernel {
    /// Entry point of the kernel.
    pub entry: String,
    /// Path of the kernel's source below `kernels/`.
    pub file: String,
}

impl Marking {
    fn lock(&self) -> MutexGuard<'_, MarkingState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Turns marks on; returns false if another `Xray` already uses them.
    pub(super) fn begin(&self) -> bool {
        let mut state = self.lock();
        let begun = state.begun;
        (state.begun, state.on) = (true, true);
        !begun
    }

    /// Stops adding marks to kernels that are loaded from now on.
    pub(super) fn pause(&self) {
        self.lock().on = false;
    }

    /// Turns marks off and forgets the marked modules. Kernels that are still alive keep their modules and rings.
    pub(super) fn end(&self) {
        let state = std::mem::take(&mut *self.lock());
        // The modules may be unloaded here, after the lock has been released.
        drop(state);
    }

    pub(super) fn marked(&self) -> Vec<Arc<Marked>> {
        self.lock().marked.clone()
    }

    /// Returns the kernels without marks that have been launched so far, each once.
    pub(super) fn unmarked(&self) -> Vec<UnmarkedKernel> {
        self.lock().unmarked.clone()
    }

    /// Sets whether a run is being recorded.
    pub(super) fn set_recording(&self, recording: bool) {
        self.lock().recording = recording;
    }

    /// Records a launch of a kernel without marks, if it belongs to a recorded run or is captured into a graph.
    fn launched_without(&self, spec: &KernelSpec, captured: bool) {
        let mut state = self.lock();
        let is_new = !state.unmarked.iter().any(|k| k.entry == spec.entry && k.file == spec.file);
        if state.begun && (captured || state.recording) && is_new {
            state.unmarked.push(UnmarkedKernel { entry: spec.entry.to_string(), file: spec.file.to_string() });
        }
    }

    /// Returns true if kernels that are loaded now are compiled with their marks.
    pub(crate) fn is_on(&self) -> bool {
        self.lock().on
    }

    /// Loads the kernel with its marks; `None` if marks are off or the kernel has none.
    pub(crate) fn load(
        self: &Arc<Self>,
        device: &CudaDevice,
        spec: &KernelSpec,
        tile: &Tile,
    ) -> Option<Result<Kernel>> {
        if !self.is_on() {
            return None;
        }
        let marks = Marks::for_kernel(spec)?;
        Some(self.load_marked(device, spec, tile, &marks))
    }

    fn load_marked(
        self: &Arc<Self>,
        device: &CudaDevice,
        spec: &KernelSpec,
        tile: &Tile,
        marks: &Marks,
    ) -> Result<Kernel> {
        let compiled = device.compiler()?.compile(&marks.on(spec), tile, &device.architecture_of(spec))?;
        let kernel = Kernel::load(device, spec, tile, &compiled)?;
        let module = kernel.module()?.clone();
        let mut state = self.lock();
        let known = state.marked.iter().find(|m| Arc::ptr_eq(&m.module, &module)).cloned();
        let marked = known.unwrap_or_else(|| {
            let threads = tile.size(warpbook_record::Dim::Threads);
            let new = Arc::new(Marked {
                module,
                file: spec.file.to_string(),
                tile: tile.id.to_string(),
                marks: marks.clone(),
                warps: threads.div_ceil(32),
                launched: Mutex::new(vec![[0; 2]; marks.entries.len()]),
                rings: Mutex::default(),
                marking: self.clone(),
            });
            state.marked.push(new.clone());
            new
        });
        Ok(kernel.watched(marked))
    }
}

impl LaunchWatch for Marking {
    fn launched(&self, spec: &KernelSpec, _shape: Launch, captured: bool) {
        self.launched_without(spec, captured);
    }
}

/// A module that was compiled with marks.
pub(crate) struct Marked {
    module: Arc<Module>,
    pub(super) file: String,
    pub(super) tile: String,
    pub(super) marks: Marks,
    /// Number of warps per block.
    pub(super) warps: u64,
    /// For each entry point, the number of blocks in its last launch and in its largest launch.
    launched: Mutex<Vec<[u64; 2]>>,
    rings: Mutex<Option<Rings>>,
    marking: Arc<Marking>,
}

/// The fields of the struct `XrayRings` in `kernels/xray.cuh`, and the memory of the rings.
struct Rings {
    records: Buffer<u32>,
    warps: u64,
    capacity: u64,
}

impl LaunchWatch for Marked {
    fn launched(&self, spec: &KernelSpec, shape: Launch, captured: bool) {
        // The module may contain other kernels, without marks.
        let Some(place) = self.marks.entries.iter().position(|e| *e == spec.entry) else {
            return self.marking.launched_without(spec, captured);
        };
        let blocks = shape.grid.iter().map(|n| u64::from(*n)).product::<u64>();
        let mut launched = self.launched.lock().unwrap_or_else(PoisonError::into_inner);
        launched[place] = [blocks, launched[place][1].max(blocks)];
    }
}

impl Marked {
    /// Returns the number of blocks in each entry's last launch.
    pub(super) fn blocks(&self) -> Vec<u64> {
        self.launched.lock().unwrap_or_else(PoisonError::into_inner).iter().map(|[last, _]| *last).collect()
    }

    /// Returns the number of rings needed: for every entry point, as many as the largest launch has warps.
    pub(super) fn rings_needed(&self) -> u64 {
        let launched = self.launched.lock().unwrap_or_else(PoisonError::into_inner);
        launched.iter().map(|[_, most]| most * self.warps).max().unwrap_or(0) * self.marks.entries.len() as u64
    }

    /// Allocates rings with at most `most_bytes` bytes in total, stores their address in the module's variable, and returns the
    /// number of rings.
    pub(super) fn allocate(&self, device: &CudaDevice, most_bytes: u64) -> Result<u64> {
        let entries = self.marks.entries.len() as u64;
        let Some((warps, capacity)) = size(self.rings_needed() / entries, entries, most_bytes) else { return Ok(0) };
        let bytes = entries * warps * capacity * RECORD;
        let records = device.zeros::<u32>((bytes / 4) as usize)?;
        let symbol = Symbol { records: records.at(0).address(), warps: warps as u32, capacity: capacity as u32 };
        self.write(&device.0, symbol)?;
        *self.rings.lock().unwrap_or_else(PoisonError::into_inner) = Some(Rings { records, warps, capacity });
        Ok(bytes)
    }

    /// Clears the records of all rings.
    pub(super) fn clear(&self) -> Result<()> {
        let rings = self.rings.lock().unwrap_or_else(PoisonError::into_inner);
        rings.as_ref().map_or(Ok(()), |r| r.records.fill_bytes(0))
    }

    /// Calls `each` for every warp with the index of its entry point, its number in the grid, and its ring.
    pub(super) fn read(&self, mut each: impl FnMut(usize, u64, &[[u32; 2]])) -> Result<()> {
        let rings = self.rings.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(rings) = &*rings else { return Ok(()) };
        let blocks = self.blocks();
        let words = (rings.capacity * RECORD / 4) as usize;
        for (entry, blocks) in blocks.into_iter().enumerate() {
            let count = (blocks * self.warps).min(rings.warps) as usize;
            let first = entry * rings.warps as usize * words;
            let read = rings.records.range(first..first + count * words).to_vec()?;
            for (warp, ring) in read.chunks_exact(words).enumerate() {
                let pairs: Vec<[u32; 2]> = ring.chunks_exact(2).map(|r| [r[0], r[1]]).collect();
                each(entry, warp as u64, &pairs);
            }
        }
        Ok(())
    }

    /// Writes the variable that describes the rings to the device.
    fn write(&self, device: &Inner, symbol: Symbol) -> Result<()> {
        device.bind()?;
        let address = self.module.global(SYMBOL, size_of::<Symbol>())?;
        let words = [symbol.records, u64::from(symbol.warps) | u64::from(symbol.capacity) << 32];
        // SAFETY: `global` has checked that the variable has the size of two 64-bit words, and `words` lives until the copy has been waited for.
        unsafe { result::memcpy_htod_async(address, &words, device.transfers) }
            .map_err(|e| device.error("Telling a kernel where its marks go", e))?;
        device.wait_for_transfers("Telling a kernel where its marks go")
    }
}

/// The variable that describes the rings, with the same layout as on the device.
#[repr(C)]
struct Symbol {
    records: u64,
    warps: u32,
    capacity: u32,
}

impl Module {
    /// Returns the device address of a variable, which must have a size of `bytes` bytes.
    pub(crate) fn global(&self, name: &str, bytes: usize) -> Result<sys::CUdeviceptr> {
        let c_name = std::ffi::CString::new(name).unwrap_or_default();
        let (mut address, mut found) = (0, 0);
        // SAFETY: the module is live, its context is current, and the pointers point to live values.
        let status =
            unsafe { sys::cuModuleGetGlobal_v2(&raw mut address, &raw mut found, self.raw(), c_name.as_ptr()) };
        status.result().map_err(|e| self.device.error(format!("Finding the variable {name}"), e))?;
        if found != bytes {
            let why = format!("has {found} bytes, where {bytes} were expected");
            return Err(Error::Unsupported { what: format!("The variable {name} of a kernel"), why });
        }
        Ok(address)
    }
}

/// Returns the number of rings per entry point and the number of records per ring, using at most `most_bytes` bytes for all entry
/// points. `None` if there is nothing to record.
fn size(warps: u64, entries: u64, most_bytes: u64) -> Option<(u64, u64)> {
    if warps == 0 || entries == 0 {
        return None;
    }
    let warps = warps.min(most_bytes / (entries * CAPACITY.start() * RECORD)).clamp(1, u64::from(u32::MAX));
    let room = (most_bytes / (entries * warps * RECORD)).clamp(*CAPACITY.start(), *CAPACITY.end());
    // The capacity of a ring is rounded down to a power of two.
    Some((warps, 1 << room.ilog2()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_fit_into_the_bytes_that_they_may_take() {
        let check =
            |warps, entries, bytes, expect| assert_eq!(size(warps, entries, bytes), expect, "{warps} {entries}");
        check(0, 1, 1 << 20, None);
        check(100, 1, 1 << 20, Some((100, 1024)));
        check(100, 2, 1 << 20, Some((100, 512)));
        check(1, 1, 1 << 40, Some((1, 8192)));
        // There are too many warps for the memory, so only the first ones are recorded.
        check(1 << 30, 1, 1 << 20, Some((1 << 14, 8)));
    }
}
