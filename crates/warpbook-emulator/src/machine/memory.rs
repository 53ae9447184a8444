//! Global memory: buffers with red zones between them.

use super::LIMITS;
use crate::compute::Lanes;
use crate::{Cause, Fault};
use std::cell::Cell;

/// Address of the first buffer, far from 0.
const FIRST: u64 = 0x7_0000_0000;
/// Unused bytes between buffers: more than an index of 32 bits reaches in an array of 4-byte numbers.
pub(super) const RED_ZONE: u64 = 16 << 30;
/// Each byte of new memory: numbers are NaN, and integers -1.
pub(super) const POISON: u8 = 0xff;

/// The unwritten bits of a buffer.
#[derive(Debug, Clone)]
pub(crate) enum Unwritten {
    All,
    Nothing,
    /// A set bit is unwritten, byte by byte.
    Bits(Vec<u8>),
}

impl Unwritten {
    /// Returns the unwritten bits of a buffer with `length` bytes; `None` if everything has been written.
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

/// All buffers, sorted by address.
#[derive(Debug, Default, Clone)]
pub(crate) struct Memory {
    pub(crate) buffers: Vec<Buffer>,
    /// The buffer that was found last.
    last: Cell<usize>,
    used: u64,
    /// Registers of ended warps, kept for later ones: new pages cost more than a short kernel.
    pub(crate) spare_rows: Vec<Vec<Lanes>>,
}

impl Memory {
    pub(super) fn allocate(&mut self, bytes: u64) -> Result<u64, Fault> {
        let start = self.buffers.last().map_or(FIRST, |last| (last.end() + RED_ZONE).next_multiple_of(512));
        let length = usize::try_from(bytes).unwrap_or(usize::MAX);
        if self.used.saturating_add(bytes) > LIMITS.global_bytes {
            let message =
                format!("{bytes} bytes do not fit into the emulator's {} bytes of memory.", LIMITS.global_bytes);
            return Err(Fault::new(Cause::Launch, message));
        }
        self.used += bytes;
        self.buffers.push(Buffer { start, bytes: vec![POISON; length], unwritten: Unwritten::All });
        Ok(start)
    }

    pub(super) fn free(&mut self, address: u64) {
        if let Some(at) = self.buffers.iter().position(|buffer| buffer.start == address) {
            self.used -= self.buffers[at].bytes.len() as u64;
            self.buffers.remove(at);
        }
    }

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

    /// Returns bytes for the host to read or write.
    pub(super) fn host_bytes(&mut self, address: u64, length: usize) -> Result<&mut [u8], Fault> {
        if length == 0 {
            return Ok(&mut []);
        }
        let found = self.buffer(address).and_then(|buffer| {
            let offset = usize::try_from(address - buffer.start).ok()?;
            buffer.bytes.get_mut(offset..offset.checked_add(length)?)
        });
        let message = || format!("{length} bytes at address {address:#x} are not in one buffer.");
        found.ok_or_else(|| Fault::new(Cause::OutOfBounds, message()))
    }

    /// Marks bytes of a buffer as written by the host.
    pub(super) fn note_written(&mut self, address: u64, length: usize) {
        let Some(buffer) = self.buffer(address) else { return };
        let start = usize::try_from(address - buffer.start).unwrap_or(0);
        if length == buffer.bytes.len() {
            buffer.unwritten = Unwritten::Nothing;
            return;
        }
        if let Some(bits) = buffer.unwritten.bits(buffer.bytes.len()) {
            bits[start..start + length].fill(0);
        }
    }

    /// Marks everything as written, as after a launch without checks.
    pub(super) fn take_for_written(&mut self) {
        self.buffers.iter_mut().for_each(|buffer| buffer.unwritten = Unwritten::Nothing);
    }

    /// Returns the buffer that contains an address or is nearest to it.
    pub(super) fn nearest(&self, address: u64) -> Option<&Buffer> {
        let distance = |buffer: &&Buffer| match address {
            a if a < buffer.start => buffer.start - a,
            a => a.saturating_sub(buffer.end()),
        };
        self.buffers.iter().min_by_key(distance)
    }
}
