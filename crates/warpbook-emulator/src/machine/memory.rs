//! Global memory: buffers that are separated by unused addresses (red zones).

use super::LIMITS;
use crate::compute::Lanes;
use crate::{Cause, Fault, Gpu};
use std::cell::Cell;
use std::ops::Range;

/// Address of the first buffer. It is far from 0, so that null pointers with an offset are detected.
const FIRST: u64 = 0x7_0000_0000;
/// Number of unused bytes between buffers. A 32-bit index into an array of 4-byte numbers cannot cross them.
pub(super) const RED_ZONE: u64 = 16 << 30;
/// Value of each byte in new memory. Floating-point numbers are then NaN, and signed integers are -1.
pub(super) const POISON: u8 = 0xff;

/// The bits of a buffer that have never been written.
#[derive(Debug, Clone)]
pub(crate) enum Unwritten {
    All,
    Nothing,
    /// A mask with a byte for each byte of the buffer. A set bit is unwritten.
    Bits(Vec<u8>),
}

impl Unwritten {
    /// Returns the unwritten bits of a buffer with `length` bytes; `None` if all of the buffer has been written.
    pub(crate) fn bits(&mut self, length: usize) -> Option<&mut [u8]> {
        if matches!(self, Self::All) {
            *self = Self::Bits(vec![0xff; length]);
        }
        match self {
            Self::Bits(bits) => Some(bits),
            _ => None,
        }
    }
}

/// A buffer of global memory.
#[derive(Debug, Clone)]
pub(crate) struct Buffer {
    pub(crate) start: u64,
    pub(crate) bytes: Vec<u8>,
    pub(crate) unwritten: Unwritten,
}

impl Buffer {
    pub(crate) fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

/// All buffers of global memory, sorted by address.
#[derive(Debug, Default, Clone)]
pub(crate) struct Memory {
    pub(crate) buffers: Vec<Buffer>,
    /// Index of the buffer that the latest search found. The next search tries it first.
    last: Cell<usize>,
    used: u64,
    /// Registers of warps that have ended, kept for later warps: allocating new pages takes longer than a short kernel.
    pub(crate) spare_rows: Vec<Vec<Lanes>>,
}

impl Memory {
    /// Returns the index of the buffer that contains an address.
    #[inline]
    pub(crate) fn index(&self, address: u64) -> Option<usize> {
        let is_in = |buffer: &Buffer| address.wrapping_sub(buffer.start) < buffer.bytes.len() as u64;
        let last = self.last.get();
        if self.buffers.get(last).is_some_and(is_in) {
            return Some(last);
        }
        let found = self.buffers.partition_point(|buffer| buffer.start <= address).checked_sub(1)?;
        self.last.set(found);
        is_in(&self.buffers[found]).then_some(found)
    }

    /// Returns the buffer that contains an address.
    pub(crate) fn find(&self, address: u64) -> Option<&Buffer> {
        self.index(address).map(|at| &self.buffers[at])
    }

    pub(super) fn buffer(&mut self, address: u64) -> Option<&mut Buffer> {
        self.index(address).map(|at| &mut self.buffers[at])
    }

    /// Returns the buffer that contains all bytes of a range, and the position of the range in the buffer.
    fn range(&mut self, address: u64, length: usize) -> Result<(&mut Buffer, Range<usize>), Fault> {
        let found = self.buffer(address).and_then(|buffer| {
            let start = usize::try_from(address - buffer.start).ok()?;
            let end = start.checked_add(length).filter(|end| *end <= buffer.bytes.len())?;
            Some((buffer, start..end))
        });
        let message = || format!("{length} bytes at address {address:#x} are not in one buffer.");
        found.ok_or_else(|| Fault::new(Cause::OutOfBounds, message()))
    }

    /// Returns the buffer that contains an address, or else the buffer nearest to it.
    pub(super) fn nearest(&self, address: u64) -> Option<&Buffer> {
        // At most one of the two differences is not 0.
        let distance = |buffer: &&Buffer| buffer.start.saturating_sub(address) + address.saturating_sub(buffer.end());
        self.buffers.iter().min_by_key(distance)
    }
}

impl Gpu {
    /// Allocates `bytes` bytes of global memory and returns their address. Floating-point numbers in new memory are NaN.
    ///
    /// # Errors
    /// If global memory is full.
    pub fn allocate(&mut self, bytes: u64) -> Result<u64, Fault> {
        let memory = &mut self.memory;
        let start = memory.buffers.last().map_or(FIRST, |last| (last.end() + RED_ZONE).next_multiple_of(512));
        let length = usize::try_from(bytes).unwrap_or(usize::MAX);
        if memory.used.saturating_add(bytes) > LIMITS.global_bytes {
            let message =
                format!("{bytes} bytes do not fit into the emulator's {} bytes of memory.", LIMITS.global_bytes);
            return Err(Fault::new(Cause::Launch, message));
        }
        memory.used += bytes;
        memory.buffers.push(Buffer { start, bytes: vec![POISON; length], unwritten: Unwritten::All });
        Ok(start)
    }

    /// Frees the buffer that begins at an address.
    pub fn free(&mut self, address: u64) {
        let memory = &mut self.memory;
        if let Some(at) = memory.buffers.iter().position(|buffer| buffer.start == address) {
            memory.used -= memory.buffers[at].bytes.len() as u64;
            memory.buffers.remove(at);
        }
    }

    /// Copies bytes to global memory.
    ///
    /// # Errors
    /// If the bytes are not all in one buffer.
    pub fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Fault> {
        if bytes.is_empty() {
            return Ok(());
        }
        let (buffer, range) = self.memory.range(address, bytes.len())?;
        buffer.bytes[range.clone()].copy_from_slice(bytes);
        if range.len() == buffer.bytes.len() {
            buffer.unwritten = Unwritten::Nothing;
        } else if let Some(bits) = buffer.unwritten.bits(buffer.bytes.len()) {
            bits[range].fill(0);
        }
        Ok(())
    }

    /// Copies bytes from global memory into a slice.
    ///
    /// # Errors
    /// If the bytes are not all in one buffer.
    pub fn read(&mut self, address: u64, bytes: &mut [u8]) -> Result<(), Fault> {
        if !bytes.is_empty() {
            let (buffer, range) = self.memory.range(address, bytes.len())?;
            bytes.copy_from_slice(&buffer.bytes[range]);
        }
        Ok(())
    }
}
