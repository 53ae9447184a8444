//! Pools, which keep the memory of freed arrays for later ones.

pub(crate) mod plan;

use crate::memory::allocation::Allocation;
use crate::memory::pool::plan::{Location, PoolPlan, PoolUse};
use crate::{CudaDevice, Element, Error, Result, Slice};
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A caching pool of device memory. The memory of a dropped array is kept for the next array, so that a loop that allocates asks the driver
/// only once. The counters and rules follow PyTorch's caching allocator.
///
/// The arrays are meant for work on a single stream: the memory of a dropped array may be given to the next array while kernels queued earlier
/// still use it. This is safe because work queued later on the same stream runs after them.
///
/// ```no_run
/// # use warpbook_device::{Choice, Device, Pool};
/// # let device = Device::open(Choice::Best)?;
/// # let device = device.cuda().unwrap();
/// let pool = Pool::new(device);
/// for _ in 0..100 {
///     let scratch = pool.array::<f32>(1 << 20)?; // the same memory each time
/// }
/// assert_eq!(pool.used().new_segments, 1);
/// # Ok::<(), warpbook_device::Error>(())
/// ```
#[derive(Clone)]
pub struct Pool(Arc<Shared>);

struct Shared {
    device: CudaDevice,
    state: Mutex<PoolState>,
}

#[derive(Default)]
struct PoolState {
    plan: PoolPlan,
    /// The memory of each segment; `None` if the segment was released.
    segments: Vec<Option<Arc<Allocation>>>,
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pool({:?})", self.used())
    }
}

/// An array of a [`Pool`]. Its memory returns to the pool when this value is dropped, so do not use its slices after that. The contents are
/// initially undefined.
pub struct Pooled<T> {
    slice: Slice<T>,
    location: Location,
    pool: Arc<Shared>,
}

impl<T> std::fmt::Debug for Pooled<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pooled<{}>[{}] at {:?}", std::any::type_name::<T>(), self.slice.len(), self.location)
    }
}

impl<T> Deref for Pooled<T> {
    type Target = Slice<T>;

    fn deref(&self) -> &Slice<T> {
        &self.slice
    }
}

impl<T> Drop for Pooled<T> {
    fn drop(&mut self) {
        self.pool.change(|state| state.plan.give_back(self.location));
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies a change to the pool's state, and updates the device's counters.
    fn change<R>(&self, change: impl FnOnce(&mut PoolState) -> R) -> R {
        let bytes = |state: &PoolState| (state.plan.used().allocated, state.plan.used().reserved);
        let mut state = self.state();
        let before = bytes(&state);
        let done = change(&mut state);
        self.device.0.memory.pool_changed(before, bytes(&state));
        done
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // No array is left, because each array shares ownership of this value.
        let used = self.state().plan.used();
        self.device.0.memory.pool_changed((used.allocated, used.reserved), (0, 0));
    }
}

impl Pool {
    /// Returns an empty pool on a device.
    #[must_use]
    pub fn new(device: &CudaDevice) -> Self {
        Self(Arc::new(Shared { device: device.clone(), state: Mutex::default() }))
    }

    /// Returns an array of `len` elements. If no free block is large enough, the pool requests a segment from the driver. If the driver has
    /// too little memory, the pool releases all unused segments and tries once more.
    ///
    /// # Errors
    /// Returns an error if the device does not have enough memory.
    pub fn array<T: Element>(&self, len: usize) -> Result<Pooled<T>> {
        self.0.device.0.bind_for("Pools of memory")?;
        let bytes = len.saturating_mul(size_of::<T>()) as u64;
        let what = || format!("{len} {}", std::any::type_name::<T>());
        let (memory, location) = self.0.change(|state| state.find_block(&self.0.device, bytes, what))?;
        Ok(Pooled { slice: Slice::new(memory, location.offset as usize, len), location, pool: self.0.clone() })
    }

    /// Returns the pool's statistics, such as the bytes in use and the bytes reserved.
    #[must_use]
    pub fn used(&self) -> PoolUse {
        self.0.state().plan.used()
    }

    /// Resets the peaks to the current values.
    pub fn reset_peaks(&self) {
        self.0.state().plan.reset_peaks();
    }

    /// Returns all segments without arrays to the driver, like PyTorch's `empty_cache`; this waits for the device. A segment with even a
    /// single array stays.
    pub fn empty_cache(&self) {
        self.0.change(PoolState::give_back_unused);
    }
}

impl PoolState {
    /// Returns a free block of this many bytes, allocating a new segment if necessary.
    fn find_block(
        &mut self,
        device: &CudaDevice,
        bytes: u64,
        what: impl Fn() -> String,
    ) -> Result<(Arc<Allocation>, Location)> {
        let refused = |why: String| Error::Unsupported { what: "A pool".into(), why };
        let location = match self.plan.take(bytes) {
            Some(location) => location,
            None => {
                let needed = PoolPlan::needed(bytes);
                let allocate = || {
                    let what = format!("A segment of {needed} bytes for {}", what());
                    Allocation::uninitialised(device, needed as usize, what)
                };
                let memory = match allocate() {
                    Err(Error::OutOfMemory { .. }) => {
                        self.give_back_unused();
                        allocate()?
                    }
                    allocated => allocated?,
                };
                let segment = self.plan.add(needed);
                if segment == self.segments.len() {
                    self.segments.push(None);
                }
                self.segments[segment] = Some(memory);
                self.plan.take(bytes).ok_or_else(|| refused(format!("has no room for {bytes} bytes")))?
            }
        };
        let memory = self.segments[location.segment].clone();
        Ok((memory.ok_or_else(|| refused("has given this segment back".into()))?, location))
    }

    fn give_back_unused(&mut self) {
        for segment in self.plan.empty() {
            self.segments[segment] = None;
        }
    }
}
