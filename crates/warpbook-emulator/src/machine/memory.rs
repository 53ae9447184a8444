//! Global memory: buffers with red zones between them.

use super::LIMITS;
use crate::compute::Lanes;
use crate::{Cause, Fault};

/// Where buffers begin, far from address 0.
const FIRST: u64 = 0x7_0000_0000;
/// Bytes between buffers that belong to nobody: more than any index of 32 bits reaches in an array of numbers of 4 bytes.
const RED_ZONE: u64 = 16 << 30;
/// What new memory holds: NaN, and -1.
pub(super) const POISON: u8 = 0xff;

/// Which bits of a buffer nobody has written.
#[derive(Debug, Clone)]
pub(crate) enum Unwritten {
    All,
    Nothing,
    /// Set bits are those that nobody has written, byte by byte.
    Bits(Vec<u8>),
}

/// A part of global memory.
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

/// All buffers, by their addresses.
#[derive(Debug, Default, Clone)]
pub(crate) struct Memory {
    pub(crate) buffers: Vec<Buffer>,
    /// The buffer that was found last.
    last: usize,
    used: u64,
    /// Registers of warps that have ended, for the next ones: new pages cost more than a short kernel.
    pub(super) spare_rows: Vec<Vec<Lanes>>,
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

    /// The buffer that an address is in.
    pub(super) fn buffer(&mut self, address: u64) -> Option<&mut Buffer> {
        let is_in = |buffer: &Buffer| buffer.start <= address && address < buffer.end();
        if !self.buffers.get(self.last).is_some_and(is_in) {
            self.last = self.buffers.partition_point(|buffer| buffer.start <= address).checked_sub(1)?;
        }
        self.buffers.get_mut(self.last).filter(|buffer| is_in(buffer))
    }

    /// Bytes that the host reads or writes.
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

    /// The buffer that an address is in, if it is one of the launch.
    pub(crate) fn find(&self, address: u64) -> Option<&Buffer> {
        let at = self.buffers.partition_point(|buffer| buffer.start <= address).checked_sub(1)?;
        self.buffers.get(at).filter(|buffer| address < buffer.end())
    }

    /// Notes that the host has written bytes of a buffer.
    pub(super) fn note_written(&mut self, address: u64, length: usize) {
        let Some(buffer) = self.buffer(address) else { return };
        let start = usize::try_from(address - buffer.start).unwrap_or(0);
        if length == buffer.bytes.len() {
            buffer.unwritten = Unwritten::Nothing;
            return;
        }
        if matches!(buffer.unwritten, Unwritten::All) {
            buffer.unwritten = Unwritten::Bits(vec![0xff; buffer.bytes.len()]);
        }
        if let Unwritten::Bits(bits) = &mut buffer.unwritten {
            bits[start..start + length].fill(0);
        }
    }

    /// Takes everything for written, as after a launch without checks.
    pub(super) fn take_for_written(&mut self) {
        self.buffers.iter_mut().for_each(|buffer| buffer.unwritten = Unwritten::Nothing);
    }

    /// The buffer that an address is in or next to.
    pub(super) fn nearest(&self, address: u64) -> Option<&Buffer> {
        let distance = |buffer: &&Buffer| match address {
            a if a < buffer.start => buffer.start - a,
            a => a.saturating_sub(buffer.end()),
        };
        self.buffers.iter().min_by_key(distance)
    }
}
