//! Kernels compiled with marks, and the memory of their records.

use crate::cuda::context::Inner;
use crate::cuda::kernel::LaunchWatch;
use crate::cuda::module::Module;
use crate::{Buffer, CudaDevice, Error, Kernel, Result};
use cudarc::driver::{result, sys};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use warpbook_kernels::Launch;
use warpbook_kernels::xray::Marks;
use warpbook_record::{KernelSpec, Tile};

/// The symbol for the rings in `kernels/xray.cuh`.
const SYMBOL: &str = "xray_rings";
/// Smallest and largest number of records of a ring.
const CAPACITY: std::ops::RangeInclusive<u64> = 8..=8192;
/// Bytes of a record.
const RECORD: u64 = 8;

/// State of marking: whether kernels are compiled with their marks, and the modules that were.
#[derive(Default)]
pub(crate) struct Marking(Mutex<MarkingState>);

#[derive(Default)]
struct MarkingState {
    begun: bool,
    on: bool,
    /// True if a run is being recorded.
    recording: bool,
    marked: Vec<Arc<Marked>>,
    unmarked: Vec<UnmarkedKernel>,
}

/// A kernel without marks that was launched next to marked ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnmarkedKernel {
    /// Entry point of the kernel.
    pub entry: String,
    /// Path of its source below `kernels/`.
    pub file: String,
}

impl Marking {
    fn lock(&self) -> MutexGuard<'_, MarkingState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Turns marks on; returns false if they are already in use.
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

    /// Turns marks off and removes the kernels, which keep their rings.
    pub(super) fn end(&self) {
        let state = std::mem::take(&mut *self.lock());
        // Modules are unloaded outside the lock.
        drop(state);
    }

    pub(super) fn marked(&self) -> Vec<Arc<Marked>> {
        self.lock().marked.clone()
    }

    /// Returns the kernels without marks that were launched so far, each once.
    pub(super) fn unmarked(&self) -> Vec<UnmarkedKernel> {
        self.lock().unmarked.clone()
    }

    /// Sets whether a run is being recorded.
    pub(super) fn set_recording(&self, recording: bool) {
        self.lock().recording = recording;
    }

    /// Records a launch of a kernel without marks, if it belongs to the recorded run, or is captured into a graph for it.
    fn launched_without(&self, spec: &KernelSpec, captured: bool) {
        let mut state = self.lock();
        let is_new = !state.unmarked.iter().any(|k| k.entry == spec.entry && k.file == spec.file);
        if state.begun && (captured || state.recording) && is_new {
            state.unmarked.push(UnmarkedKernel { entry: spec.entry.to_string(), file: spec.file.to_string() });
        }
    }

    /// Returns true if kernels that are loaded now get their marks.
    pub(crate) fn is_on(&self) -> bool {
        self.lock().on
    }

    /// Returns the kernel with its marks, if marks are on and it has any.
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

/// A module compiled with marks.
pub(crate) struct Marked {
    module: Arc<Module>,
    pub(super) file: String,
    pub(super) tile: String,
    pub(super) marks: Marks,
    /// Number of warps of a block.
    pub(super) warps: u64,
    /// Number of blocks in each entry's last launch, and in its largest.
    launched: Mutex<Vec<[u64; 2]>>,
    rings: Mutex<Option<Rings>>,
    marking: Arc<Marking>,
}

/// The struct `XrayRings` of `kernels/xray.cuh`, and its memory.
struct Rings {
    records: Buffer<u32>,
    warps: u64,
    capacity: u64,
}

impl LaunchWatch for Marked {
    fn launched(&self, spec: &KernelSpec, shape: Launch, captured: bool) {
        // Another kernel of the same file may have no marks.
        let Some(place) = self.marks.entries.iter().position(|e| *e == spec.entry) else {
            return self.marking.launched_without(spec, captured);
        };
        let blocks = shape.grid.iter().map(|n| u64::from(*n)).product::<u64>();
        let mut launched = self.launched.lock().unwrap_or_else(PoisonError::into_inner);
        launched[place] = [blocks, launched[place][1].max(blocks)];
    }
}

impl Marked {
    /// Number of blocks of each entry's last launch.
    pub(super) fn blocks(&self) -> Vec<u64> {
        self.launched.lock().unwrap_or_else(PoisonError::into_inner).iter().map(|[last, _]| *last).collect()
    }

    /// Number of rings for the largest launch of each entry.
    pub(super) fn rings_needed(&self) -> u64 {
        let launched = self.launched.lock().unwrap_or_else(PoisonError::into_inner);
        launched.iter().map(|[_, most]| most * self.warps).max().unwrap_or(0) * self.marks.entries.len() as u64
    }

    /// Allocates rings of at most this many bytes in all, writes their addresses to the module, and returns the number of rings.
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

    /// Empties the rings.
    pub(super) fn clear(&self) -> Result<()> {
        let rings = self.rings.lock().unwrap_or_else(PoisonError::into_inner);
        rings.as_ref().map_or(Ok(()), |r| r.records.fill_bytes(0))
    }

    /// Calls `each` with the rings of an entry, one slice per warp, and the warp's number in the grid.
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

    /// Writes the symbol.
    fn write(&self, device: &Inner, symbol: Symbol) -> Result<()> {
        device.bind()?;
        let address = self.module.global(SYMBOL, size_of::<Symbol>())?;
        let words = [symbol.records, u64::from(symbol.warps) | u64::from(symbol.capacity) << 32];
        // SAFETY: the symbol has two words, and the values live past the wait.
        unsafe { result::memcpy_htod_async(address, &words, device.transfers) }
            .map_err(|e| device.error("Telling a kernel where its marks go", e))?;
        device.wait_for_transfers("Telling a kernel where its marks go")
    }
}

/// The symbol of the rings, with the device's layout.
#[repr(C)]
struct Symbol {
    records: u64,
    warps: u32,
    capacity: u32,
}

impl Module {
    /// Returns the address of a variable in the device's memory, which must have this many bytes.
    pub(crate) fn global(&self, name: &str, bytes: usize) -> Result<sys::CUdeviceptr> {
        let c_name = std::ffi::CString::new(name).unwrap_or_default();
        let (mut address, mut found) = (0, 0);
        // SAFETY: the module is live, the context current, and the pointers point to live values.
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

/// Returns the number of rings of an entry and the number of records in each, within this many bytes for all entries; `None` if there
/// is nothing to record.
fn size(warps: u64, entries: u64, most_bytes: u64) -> Option<(u64, u64)> {
    if warps == 0 || entries == 0 {
        return None;
    }
    let warps = warps.min(most_bytes / (entries * CAPACITY.start() * RECORD)).clamp(1, u64::from(u32::MAX));
    let room = (most_bytes / (entries * warps * RECORD)).clamp(*CAPACITY.start(), *CAPACITY.end());
    // Rounded down to a power of two.
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
        // There are too many warps, so only the first of them are recorded.
        check(1 << 30, 1, 1 << 20, Some((1 << 14, 8)));
    }
}
