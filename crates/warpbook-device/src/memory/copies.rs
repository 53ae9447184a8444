//! Fills and copies that are queued on a stream, like launches, and that can be captured into graphs.
//!
//! All functions return as soon as the work is queued. Queued work need not own its memory, because freeing memory waits for the work. Captured work is
//! owned by the graph, including its memory.

use crate::memory::allocation::Allocation;
use crate::memory::pinned::Access;
use crate::{Element, Error, Pinned, Result, Slice, Stream};
use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys;
use std::sync::Arc;
use std::time::{Duration, Instant};

impl Stream {
    /// Queues a fill that sets every byte of a slice to `byte`.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the slice is on another device; the driver's errors.
    pub fn fill<T: Element>(&self, to: &Slice<T>, byte: u8) -> Result<()> {
        if self.device.emulator().is_some() {
            return to.fill_bytes(byte);
        }
        self.on_device("A fill", to.bytes(), &[to.memory()], || {
            // SAFETY: the range belongs to the slice, and its memory lives until the fill has ended.
            unsafe { result::memset_d8_async(to.address, byte, to.bytes(), self.raw) }
        })
    }

    /// Queues a fill that sets every element of a slice to `value`. Elements must have 1, 2 or 4 bytes; any other size is a compile-time error.
    ///
    /// # Errors
    /// The errors of [`Stream::fill`].
    pub fn fill_value<T: Element>(&self, to: &Slice<T>, value: T) -> Result<()> {
        const { assert!(matches!(size_of::<T>(), 1 | 2 | 4), "elements to be filled have 1, 2 or 4 bytes") };
        if self.device.emulator().is_some() {
            return to.write(&vec![value; to.len()]);
        }
        self.on_device("A fill", to.bytes(), &[to.memory()], || {
            // SAFETY: in the branch that runs, T has the size of the number that the driver expects, and no padding. The range belongs to the slice, and its
            // memory lives until the fill has ended.
            unsafe {
                match size_of::<T>() {
                    1 => result::memset_d8_async(to.address, std::mem::transmute_copy(&value), to.len(), self.raw),
                    2 => {
                        sys::cuMemsetD16Async(to.address, std::mem::transmute_copy(&value), to.len(), self.raw).result()
                    }
                    _ => {
                        sys::cuMemsetD32Async(to.address, std::mem::transmute_copy(&value), to.len(), self.raw).result()
                    }
                }
            }
        })
    }

    /// Queues a copy from one slice to another on the same device.
    ///
    /// # Errors
    /// The errors of [`Stream::fill`].
    ///
    /// # Panics
    /// Panics if the slices have different lengths, or overlap.
    pub fn copy<T: Element>(&self, from: &Slice<T>, to: &Slice<T>) -> Result<()> {
        assert_eq!(from.len(), to.len(), "as many elements on both sides of a copy");
        assert!(!from.overlaps(to), "the two sides of a copy do not overlap");
        if self.device.emulator().is_some() {
            return to.write(&from.to_vec()?);
        }
        self.on_device("A copy", to.bytes(), &[from.memory(), to.memory()], || {
            // SAFETY: the ranges belong to the slices, and their memory lives until the copy has ended.
            unsafe { result::memcpy_dtod_async(to.address, from.address, to.bytes(), self.raw) }
        })
    }

    /// Queues a copy from page-locked host memory to the device. The values are read when the copy runs, so [`Pinned::write`] waits for the copy.
    ///
    /// # Errors
    /// [`Error::PinnedInUse`] while the host writes to the array, unless the copy is being captured; the errors of [`Stream::fill`].
    ///
    /// # Panics
    /// Panics if the two arrays have different lengths.
    pub fn copy_to_device<T: Element>(&self, from: &Pinned<T>, to: &Slice<T>) -> Result<()> {
        assert_eq!(from.len(), to.len(), "as many elements on both sides of a copy");
        self.with_host("A copy to the device", Access::Read, from, to, || {
            // SAFETY: the ranges belong to the page-locked array and to the slice, and their memory lives until the copy has ended.
            unsafe { sys::cuMemcpyHtoDAsync_v2(to.address, from.pointer().cast(), to.bytes(), self.raw) }
        })
    }

    /// Measures an asynchronous copy from ordinary, pageable memory: how long the driver's call blocks the host, and how long the whole copy takes. This
    /// is for comparison with [`Stream::copy_to_device`], whose call only queues the copy. The function waits until the stream is idle before the copy,
    /// and until the copy has ended.
    ///
    /// # Errors
    /// Returns an error if the stream is being captured; also the errors of [`Stream::fill`].
    ///
    /// # Panics
    /// Panics if the two arrays have different lengths.
    pub fn time_pageable_copy<T: Element>(&self, from: &[T], to: &Slice<T>) -> Result<[Duration; 2]> {
        assert_eq!(from.len(), to.len(), "as many elements on both sides of a copy");
        self.synchronize()?;
        let begun = Instant::now();
        self.on_device("A copy to the device", to.bytes(), &[to.memory()], || {
            // SAFETY: the range belongs to the slice, and `from` stays borrowed until the stream is waited for below.
            unsafe { sys::cuMemcpyHtoDAsync_v2(to.address, from.as_ptr().cast(), to.bytes(), self.raw) }.result()
        })?;
        let returned = begun.elapsed();
        self.synchronize()?;
        Ok([returned, begun.elapsed()])
    }

    /// Queues a copy from the device into page-locked host memory. [`Pinned::read`] waits for the copy.
    ///
    /// # Errors
    /// [`Error::PinnedInUse`] while the host reads or writes the array, unless the copy is being captured; the errors of [`Stream::fill`].
    ///
    /// # Panics
    /// Panics if the two arrays have different lengths.
    pub fn copy_to_host<T: Element>(&self, from: &Slice<T>, to: &Pinned<T>) -> Result<()> {
        assert_eq!(from.len(), to.len(), "as many elements on both sides of a copy");
        self.with_host("A copy to the host", Access::Write, to, from, || {
            // SAFETY: the ranges belong to the slice and to the page-locked array, and their memory lives until the copy has ended. All bit patterns are valid
            // values of T, and the claim prevents the host from accessing the array until then.
            unsafe { sys::cuMemcpyDtoHAsync_v2(to.pointer().cast(), from.address, from.bytes(), self.raw) }
        })
    }

    /// Queues an operation that accesses only device memory.
    fn on_device(
        &self,
        what: &'static str,
        bytes: usize,
        memory: &[&Arc<Allocation>],
        call: impl FnOnce() -> Result<(), DriverError>,
    ) -> Result<()> {
        for memory in memory {
            self.check_device(what, memory.device.info.index)?;
        }
        if bytes == 0 {
            return Ok(());
        }
        self.device.bind()?;
        let queueing = self.queueing()?;
        call().map_err(|e| self.device.error(what, e))?;
        if let Some(mut captured) = queueing.captured() {
            memory.iter().for_each(|m| captured.keep(Arc::clone(m) as _));
        }
        Ok(())
    }

    /// Queues a copy between page-locked host memory and the device.
    fn with_host<T: Element>(
        &self,
        what: &'static str,
        access: Access,
        host: &Pinned<T>,
        slice: &Slice<T>,
        call: impl FnOnce() -> sys::CUresult,
    ) -> Result<()> {
        self.check_device(what, slice.memory().device.info.index)?;
        self.check_device(what, host.memory().device().info.index)?;
        if slice.is_empty() {
            return Ok(());
        }
        self.device.bind()?;
        let queueing = self.queueing()?;
        let failed = |e| self.device.error(what, e);
        if let Some(mut captured) = queueing.captured() {
            call().result().map_err(failed)?;
            captured.keep(slice.memory().clone());
            captured.pinned.push((host.memory().clone(), access));
            return Ok(());
        }
        let claim = host.memory().claim(access, self, what)?;
        call().result().map_err(failed)?;
        claim.queued(self)
    }

    pub(crate) fn check_device(&self, what: &str, index: u32) -> Result<()> {
        let here = self.device.info.index;
        if index == here {
            return Ok(());
        }
        Err(Error::Unsupported {
            what: what.into(),
            why: format!(
                "needs memory of the stream's device, cuda:{here}, but this memory belongs to cuda:{index}; allocate both on one device"
            ),
        })
    }
}
