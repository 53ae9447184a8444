//! Page-locked host memory, which the device can copy from and to while the CPU continues.

use crate::cuda::context::{Inner, relaxed};
use crate::memory::element::parts_of_arrays;
use crate::{CudaDevice, Element, Error, Event, Result, Stream};
use cudarc::driver::result;
use std::ffi::c_void;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An array in page-locked host memory, which is the only kind of host memory that copies queued on a [`Stream`] can access: see
/// [`Stream::copy_to_device`] and [`Stream::copy_to_host`]. The memory is freed once all clones, parts and graphs that use it have
/// been dropped and the queued copies have ended.
///
/// The host accesses the values through [`Pinned::read`] and [`Pinned::write`], which wait for conflicting copies. While the host
/// holds the result of either, conflicting copies, and launches of graphs with such copies, are refused. This applies to the whole
/// array: to use one half on the host and the other on the device at the same time, create two arrays.
pub struct Pinned<T> {
    memory: Arc<PinnedMemory>,
    start: usize,
    len: usize,
    element: PhantomData<fn() -> T>,
}

impl<T> Clone for Pinned<T> {
    fn clone(&self) -> Self {
        Self { memory: self.memory.clone(), ..*self }
    }
}

impl<T> std::fmt::Debug for Pinned<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pinned<{}>[{}]", std::any::type_name::<T>(), self.len)
    }
}

impl CudaDevice {
    /// Returns a page-locked host array of zeros.
    ///
    /// # Errors
    /// The driver's errors, for example if this much memory cannot be locked.
    pub fn pinned<T: Element>(&self, len: usize) -> Result<Pinned<T>> {
        let memory = Arc::new(PinnedMemory::zeros(&self.0, len.saturating_mul(size_of::<T>()))?);
        Ok(Pinned { memory, start: 0, len, element: PhantomData })
    }

    /// Returns a page-locked host array with these values.
    ///
    /// # Errors
    /// The errors of [`CudaDevice::pinned`].
    pub fn pinned_from<T: Element>(&self, values: &[T]) -> Result<Pinned<T>> {
        let pinned = self.pinned(values.len())?;
        pinned.write()?.copy_from_slice(values);
        Ok(pinned)
    }
}

impl<T> Pinned<T> {
    /// Returns the part with `len` elements that begins at index `start`.
    fn part(&self, start: usize, len: usize) -> Self {
        Self { memory: self.memory.clone(), start: self.start + start, len, element: PhantomData }
    }

    pub(crate) fn memory(&self) -> &Arc<PinnedMemory> {
        &self.memory
    }

    /// Returns the pointer to the first element of this part.
    pub(crate) fn pointer(&self) -> *mut T {
        // The pointer is aligned for any element, because the allocation begins at the start of a page.
        self.memory.address.as_ptr().cast::<T>().wrapping_add(self.start)
    }
}

parts_of_arrays!(Pinned);

impl<T: Element> Pinned<T> {
    /// Waits for copies into the array, and lends its values to the host for reading.
    ///
    /// # Errors
    /// [`Error::PinnedInUse`] while the host writes to the array elsewhere; the driver's errors, if a copy has failed.
    pub fn read(&self) -> Result<PinnedRead<'_, T>> {
        self.memory.lend(Access::Read)?;
        Ok(PinnedRead(self))
    }

    /// Waits for copies into and out of the array, and lends it to the host for writing.
    ///
    /// # Errors
    /// [`Error::PinnedInUse`] while the host reads or writes the array elsewhere; the driver's errors, if a copy has failed.
    pub fn write(&self) -> Result<PinnedWrite<'_, T>> {
        self.memory.lend(Access::Write)?;
        Ok(PinnedWrite(self))
    }
}

/// The values of a [`Pinned`] array, borrowed by the host for reading.
#[derive(Debug)]
pub struct PinnedRead<'a, T>(&'a Pinned<T>);

impl<T: Element> Deref for PinnedRead<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: the range lies in the allocation, which was initialised when it was created. The loan keeps the host and the device from writing to it.
        unsafe { std::slice::from_raw_parts(self.0.pointer(), self.0.len) }
    }
}

impl<T> Drop for PinnedRead<'_, T> {
    fn drop(&mut self) {
        self.0.memory.state().loans.give_back(Access::Read);
    }
}

/// The values of a [`Pinned`] array, borrowed by the host for writing.
#[derive(Debug)]
pub struct PinnedWrite<'a, T>(&'a Pinned<T>);

impl<T: Element> Deref for PinnedWrite<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: the range lies in the allocation, which was initialised when it was created. The loan is exclusive, so nothing else writes to it.
        unsafe { std::slice::from_raw_parts(self.0.pointer(), self.0.len) }
    }
}

impl<T: Element> DerefMut for PinnedWrite<'_, T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: the range lies in the allocation, which was initialised when it was created. The loan is exclusive, so nothing else accesses it.
        unsafe { std::slice::from_raw_parts_mut(self.0.pointer(), self.0.len) }
    }
}

impl<T> Drop for PinnedWrite<'_, T> {
    fn drop(&mut self) {
        self.0.memory.state().loans.give_back(Access::Write);
    }
}

/// The kind of access to an array, by the host or the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

/// The current loans of an array to the host.
#[derive(Debug, Default)]
struct Loans {
    readers: usize,
    writer: bool,
}

impl Loans {
    /// Returns an error if the operation `what` needs an access that conflicts with a current loan.
    fn check(&self, access: Access, what: &'static str) -> Result<()> {
        if self.writer {
            return Err(Error::PinnedInUse { what, loan: "write" });
        }
        if self.readers > 0 && access == Access::Write {
            return Err(Error::PinnedInUse { what, loan: "read" });
        }
        Ok(())
    }

    fn lend(&mut self, access: Access) {
        match access {
            Access::Read => self.readers += 1,
            Access::Write => self.writer = true,
        }
    }

    fn give_back(&mut self, access: Access) {
        match access {
            Access::Read => self.readers -= 1,
            Access::Write => self.writer = false,
        }
    }
}

/// The last copy that a stream has queued for the array.
struct Pending {
    stream: u64,
    event: Event,
    /// True if one of the copies queued on the stream writes to the array.
    writes: bool,
}

#[derive(Default)]
pub(crate) struct PinnedState {
    loans: Loans,
    pending: Vec<Pending>,
}

/// One page-locked allocation, shared by all arrays that use it.
pub(crate) struct PinnedMemory {
    device: Arc<Inner>,
    address: NonNull<c_void>,
    state: Mutex<PinnedState>,
}

// SAFETY: the memory belongs to the process, not to a thread.
unsafe impl Send for PinnedMemory {}
// SAFETY: a lock protects `state`, which records who may access the memory.
unsafe impl Sync for PinnedMemory {}

impl PinnedMemory {
    fn zeros(device: &Arc<Inner>, bytes: usize) -> Result<Self> {
        device.bind_for("Page-locked arrays")?;
        let what = || format!("Allocating {bytes} bytes of page-locked host memory");
        // SAFETY: the context is current. At least one byte is requested, because CUDA refuses to allocate zero bytes.
        let address =
            relaxed(|| unsafe { result::malloc_host(bytes.max(1), 0) }).map_err(|e| device.error(what(), e))?;
        let address = NonNull::new(address).ok_or_else(|| Error::Cuda {
            what: what(),
            why: "the driver returned no address".into(),
            sticky: false,
        })?;
        // SAFETY: the allocation has `bytes` bytes, and nothing else uses it yet. Zero bytes are a valid value of every element type.
        unsafe { address.cast::<u8>().as_ptr().write_bytes(0, bytes) };
        Ok(Self { device: device.clone(), address, state: Mutex::default() })
    }

    fn state(&self) -> MutexGuard<'_, PinnedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the device that the memory was allocated for.
    pub(crate) fn device(&self) -> &Arc<Inner> {
        &self.device
    }

    /// Lends the memory to the host, once conflicting copies have ended.
    fn lend(&self, access: Access) -> Result<()> {
        let mut state = self.state();
        let what = if access == Access::Read { "`Pinned::read`" } else { "`Pinned::write`" };
        state.loans.check(access, what)?;
        // The lock is held during the wait, so that no further copy can be queued in the meantime.
        let conflicts = |p: &Pending| p.writes || access == Access::Write;
        state.pending.iter().filter(|p| conflicts(p)).try_for_each(|p| p.event.synchronize())?;
        state.pending.retain(|p| !conflicts(p));
        state.loans.lend(access);
        Ok(())
    }

    /// Begins to queue a copy that reads or writes the memory on a stream.
    pub(crate) fn claim(&self, access: Access, stream: &Stream, what: &'static str) -> Result<Claim<'_>> {
        let mut state = self.state();
        state.loans.check(access, what)?;
        let writes = access == Access::Write;
        // Each stream has only one entry: its event will be recorded again, after the new copy.
        if let Some(pending) = state.pending.iter_mut().find(|p| p.stream == stream.id) {
            pending.writes |= writes;
        } else {
            // Entries of copies that have ended are removed. Errors are ignored here and reported to code that waits for the
            // copies.
            state.pending.retain(|p| !p.event.has_happened().unwrap_or(false));
            let event = Event::untimed(&self.device)?;
            state.pending.push(Pending { stream: stream.id, event, writes });
        }
        Ok(Claim { state, stream: stream.id })
    }
}

impl Drop for PinnedMemory {
    fn drop(&mut self) {
        if self.device.may_free() {
            let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
            // Errors are ignored, because a failed copy no longer accesses the memory.
            state.pending.iter().for_each(|p| drop(p.event.synchronize()));
            // SAFETY: `malloc_host` returned the address, and neither the host nor the device uses the memory any more.
            let _ = relaxed(|| unsafe { result::free_host(self.address.as_ptr()) });
        }
    }
}

/// A guard that is held while a copy is queued: the host cannot borrow the array, and no other copy can be queued.
pub(crate) struct Claim<'a> {
    state: MutexGuard<'a, PinnedState>,
    stream: u64,
}

impl Claim<'_> {
    /// Records the event to wait for, after the copy was queued. If the driver refused the copy, the event recorded after an
    /// earlier copy remains valid.
    pub(crate) fn queued(self, stream: &Stream) -> Result<()> {
        let pending = self.state.pending.iter().find(|p| p.stream == self.stream);
        match pending.map_or(Ok(()), |p| p.event.record(stream)) {
            Ok(()) => Ok(()),
            Err(error) => {
                // Without an event, the only safe option is to wait for the copy now.
                stream.synchronize()?;
                Err(error)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_read_or_one_writes() {
        let mut loans = Loans::default();
        let allowed = |loans: &Loans| [Access::Read, Access::Write].map(|a| loans.check(a, "A copy").is_ok());
        assert_eq!(allowed(&loans), [true, true]);
        loans.lend(Access::Read);
        loans.lend(Access::Read);
        assert_eq!(allowed(&loans), [true, false]);
        loans.give_back(Access::Read);
        assert_eq!(allowed(&loans), [true, false]);
        loans.give_back(Access::Read);
        assert_eq!(allowed(&loans), [true, true]);
        loans.lend(Access::Write);
        assert_eq!(allowed(&loans), [false, false]);
        let words = loans.check(Access::Read, "A copy to the device").unwrap_err().to_string();
        assert!(words.contains("A copy to the device") && words.contains("`Pinned::write`"), "{words}");
        loans.give_back(Access::Write);
        assert_eq!(allowed(&loans), [true, true]);
    }

    #[test]
    fn pinned_arrays_can_go_to_other_threads() {
        fn is_shared<T: Send + Sync + 'static>() {}
        is_shared::<Pinned<f32>>();
        is_shared::<PinnedRead<'static, f32>>();
        is_shared::<PinnedWrite<'static, f32>>();
    }
}
