//! Loads, stores and atomics.

use super::block::Context;
use super::warp::{Warp, lanes};
use super::{LOCAL_WINDOW, SHARED_WINDOW};
use crate::program::{Access, NONE, Row};
use crate::ptx::Space;
use crate::{Cause, Fault};

/// Why an access is not possible.
enum Obstacle {
    Misaligned,
    OutOfBounds,
}

impl Warp {
    pub(super) fn load(&mut self, access: &Access, into: &[Row], active: u32, context: &mut Context) -> Result<(), Fault> {
        let addresses = *self.row(access.base);
        let bytes = usize::from(access.bytes);
        for lane in lanes(active) {
            let address = addresses[lane].wrapping_add_signed(access.offset);
            let frame = frame(&mut self.frames, lane, context);
            let found = match at(access.space, address, bytes * into.len(), frame, context) {
                Ok(found) => found,
                Err(obstacle) => return Err(self.cannot("reads", access, into.len(), obstacle, (lane, address), context)),
            };
            for (row, element) in into.iter().zip(found.chunks_exact(bytes)) {
                let Some(row) = self.rows.get_mut(*row as usize) else { continue };
                row[lane] = extend(read(element), access);
            }
        }
        Ok(())
    }

    pub(super) fn store(&mut self, access: &Access, from: &[Row], active: u32, context: &mut Context) -> Result<(), Fault> {
        let bytes = usize::from(access.bytes);
        for lane in lanes(active) {
            let address = self.row(access.base)[lane].wrapping_add_signed(access.offset);
            let frame = frame(&mut self.frames, lane, context);
            let found = match at(access.space, address, bytes * from.len(), frame, context) {
                Ok(found) => found,
                Err(obstacle) => return Err(self.cannot("writes", access, from.len(), obstacle, (lane, address), context)),
            };
            for (row, element) in from.iter().zip(found.chunks_exact_mut(bytes)) {
                write(element, self.rows[*row as usize][lane]);
            }
        }
        Ok(())
    }

    /// The lanes take their turns, the lowest first.
    pub(super) fn atomic(
        &mut self,
        access: &Access,
        update: fn(u64, u64, u64) -> u64,
        into: Row,
        operands: [Row; 2],
        active: u32,
        context: &mut Context,
    ) -> Result<(), Fault> {
        let [addresses, b, c] = [access.base, operands[0], operands[1]].map(|row| *self.row(row));
        for lane in lanes(active) {
            let address = addresses[lane].wrapping_add_signed(access.offset);
            let frame = frame(&mut self.frames, lane, context);
            let found = match at(access.space, address, access.bytes.into(), frame, context) {
                Ok(found) => found,
                Err(obstacle) => return Err(self.cannot("updates", access, 1, obstacle, (lane, address), context)),
            };
            let old = read(found);
            write(found, update(old, b[lane], c[lane]));
            if into != NONE {
                self.rows[into as usize][lane] = old;
            }
        }
        Ok(())
    }

    /// The fault of an access that is not possible.
    #[cold]
    fn cannot(
        &self,
        verb: &str,
        access: &Access,
        elements: usize,
        obstacle: Obstacle,
        (lane, address): (usize, u64),
        context: &Context,
    ) -> Fault {
        let bytes = usize::from(access.bytes) * elements;
        match obstacle {
            Obstacle::Misaligned => {
                let message = format!("The kernel {verb} {bytes} bytes at an address that is no multiple of {bytes}: {address:#x}.");
                self.fault(Cause::Misaligned, message, lane, context)
            }
            Obstacle::OutOfBounds => {
                let place = context.describe(access.space, address);
                self.fault(Cause::OutOfBounds, format!("The kernel {verb} {bytes} bytes {place}."), lane, context)
            }
        }
    }

    /// Reads bytes of a thread's frame; for calls of the runtime.
    pub(super) fn frame_value(&mut self, lane: usize, offset: i64, context: &Context) -> Option<u64> {
        let start = usize::try_from(offset).ok()?;
        frame(&mut self.frames, lane, context).get(start..start + 8).map(read)
    }

    /// Writes 4 bytes to a thread's frame.
    pub(super) fn set_frame_value(&mut self, lane: usize, offset: i64, value: u32, context: &Context) {
        let place = usize::try_from(offset).ok();
        if let Some(bytes) = place.and_then(|start| frame(&mut self.frames, lane, context).get_mut(start..start + 4)) {
            write(bytes, value.into());
        }
    }

    /// Bytes at a generic address; for calls of the runtime.
    pub(super) fn generic_bytes<'m>(
        &'m mut self,
        lane: usize,
        address: u64,
        bytes: usize,
        context: &'m mut Context,
    ) -> Option<&'m [u8]> {
        let frame = frame(&mut self.frames, lane, context);
        within(Space::Generic, address, bytes, frame, context).map(|found| &*found)
    }
}

/// A lane's local memory.
fn frame<'f>(frames: &'f mut [u8], lane: usize, context: &Context) -> &'f mut [u8] {
    let bytes = usize::try_from(context.kernel.frame_bytes).unwrap_or(0);
    &mut frames[lane * bytes..(lane + 1) * bytes]
}

/// The bytes of an access.
fn at<'m>(
    space: Space,
    address: u64,
    bytes: usize,
    frame: &'m mut [u8],
    context: &'m mut Context,
) -> Result<&'m mut [u8], Obstacle> {
    if !address.is_multiple_of(bytes as u64) {
        return Err(Obstacle::Misaligned);
    }
    within(space, address, bytes, frame, context).ok_or(Obstacle::OutOfBounds)
}

/// The bytes of an address in a space.
fn within<'m>(
    space: Space,
    address: u64,
    bytes: usize,
    frame: &'m mut [u8],
    context: &'m mut Context,
) -> Option<&'m mut [u8]> {
    let part = |all: &'m mut [u8], address: u64| {
        let start = usize::try_from(address).ok()?;
        all.get_mut(start..start.checked_add(bytes)?)
    };
    match space {
        Space::Shared => part(context.shared, address),
        Space::Local => part(frame, address),
        Space::Param => part(context.parameters, address),
        Space::Generic if address & SHARED_WINDOW != 0 => part(context.shared, address ^ SHARED_WINDOW),
        Space::Generic if address & LOCAL_WINDOW != 0 => part(frame, address ^ LOCAL_WINDOW),
        Space::Global | Space::Const | Space::Generic => context.memory.bytes(address, bytes),
    }
}

/// A number of 1, 2, 4 or 8 bytes.
fn read(bytes: &[u8]) -> u64 {
    match *bytes {
        [a, b, c, d] => u32::from_le_bytes([a, b, c, d]).into(),
        [a, b, c, d, e, f, g, h] => u64::from_le_bytes([a, b, c, d, e, f, g, h]),
        _ => bytes.iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte)),
    }
}

fn write(bytes: &mut [u8], value: u64) {
    let length = bytes.len();
    bytes.copy_from_slice(&value.to_le_bytes()[..length]);
}

/// A loaded value, extended to its register.
fn extend(value: u64, access: &Access) -> u64 {
    if access.sign_to <= access.bytes {
        return value;
    }
    let unused = 64 - 8 * u32::from(access.bytes);
    let signed = (value << unused).cast_signed() >> unused;
    signed.cast_unsigned() & (u64::MAX >> (64 - 8 * u32::from(access.sign_to)))
}
