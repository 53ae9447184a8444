//! Loads, stores and atomics.

use super::block::Context;
use super::observer::{Observer, Use};
use super::warp::{Warp, lanes};
use super::{LOCAL_WINDOW, SHARED_WINDOW};
use crate::compute::{LANES, Lanes};
use crate::program::{Access, NONE, Row};
use crate::ptx::Space;
use crate::{Cause, Fault};

/// Memory that many lanes of an access are in: bytes from an address on.
struct Region<'m> {
    start: u64,
    bytes: &'m mut [u8],
}

impl Warp {
    pub(super) fn load<O: Observer>(
        &mut self,
        access: &Access,
        into: &[Row],
        active: u32,
        context: &mut Context,
        observer: &mut O,
    ) -> Result<(), Fault> {
        let addresses = self.addresses(access, into.len(), active, Use::Load, context, observer)?;
        let Self { rows, frames, .. } = self;
        let mut done = 0;
        if let Some(region) = region(access.space, &addresses, active, context) {
            done = match access.bytes {
                1 => load_lanes::<1>(rows, access, into, active, &addresses, &region),
                2 => load_lanes::<2>(rows, access, into, active, &addresses, &region),
                4 => load_lanes::<4>(rows, access, into, active, &addresses, &region),
                _ => load_lanes::<8>(rows, access, into, active, &addresses, &region),
            };
        }
        let bytes = usize::from(access.bytes);
        for lane in lanes(active & !done) {
            let frame = frame(frames, lane, context);
            let Some(found) = within(access.space, addresses[lane], bytes * into.len(), frame, context) else {
                return Err(self.out_of_bounds(access, Use::Load, into.len(), (lane, addresses[lane]), context));
            };
            for (row, element) in into.iter().zip(found.chunks_exact(bytes)) {
                if let Some(row) = rows.get_mut(*row as usize) {
                    row[lane] = extend(read(element), access);
                }
            }
        }
        Ok(())
    }

    pub(super) fn store<O: Observer>(
        &mut self,
        access: &Access,
        from: &[Row],
        active: u32,
        context: &mut Context,
        observer: &mut O,
    ) -> Result<(), Fault> {
        let addresses = self.addresses(access, from.len(), active, Use::Store, context, observer)?;
        let Self { rows, frames, .. } = self;
        let mut done = 0;
        if let Some(region) = region(access.space, &addresses, active, context) {
            done = match access.bytes {
                1 => store_lanes::<1>(rows, from, active, &addresses, region),
                2 => store_lanes::<2>(rows, from, active, &addresses, region),
                4 => store_lanes::<4>(rows, from, active, &addresses, region),
                _ => store_lanes::<8>(rows, from, active, &addresses, region),
            };
        }
        let bytes = usize::from(access.bytes);
        for lane in lanes(active & !done) {
            let frame = frame(frames, lane, context);
            let Some(found) = within(access.space, addresses[lane], bytes * from.len(), frame, context) else {
                return Err(self.out_of_bounds(access, Use::Store, from.len(), (lane, addresses[lane]), context));
            };
            for (row, element) in from.iter().zip(found.chunks_exact_mut(bytes)) {
                write(element, rows[*row as usize][lane]);
            }
        }
        Ok(())
    }

    /// The lanes take their turns, the lowest first.
    pub(super) fn atomic<O: Observer>(
        &mut self,
        access: &Access,
        update: fn(u64, u64, u64) -> u64,
        into: Row,
        operands: [Row; 2],
        active: u32,
        context: &mut Context,
        observer: &mut O,
    ) -> Result<(), Fault> {
        let addresses = self.addresses(access, 1, active, Use::Atomic, context, observer)?;
        let [b, c] = operands.map(|row| *self.row(row));
        for lane in lanes(active) {
            let frame = frame(&mut self.frames, lane, context);
            let Some(found) = within(access.space, addresses[lane], access.bytes.into(), frame, context) else {
                return Err(self.out_of_bounds(access, Use::Atomic, 1, (lane, addresses[lane]), context));
            };
            let old = read(found);
            write(found, update(old, b[lane], c[lane]));
            if into != NONE {
                self.rows[into as usize][lane] = old;
            }
        }
        Ok(())
    }

    /// The lanes' addresses in the access's space, which are multiples of its size. The observer sees them if all of them are inside something.
    fn addresses<O: Observer>(
        &mut self,
        access: &Access,
        elements: usize,
        active: u32,
        kind: Use,
        context: &mut Context,
        observer: &mut O,
    ) -> Result<Lanes, Fault> {
        let base = self.row(access.base);
        let addresses: Lanes = std::array::from_fn(|lane| base[lane].wrapping_add_signed(access.offset));
        let bytes = usize::from(access.bytes) * elements;
        let wrong = |lane: &usize| addresses[*lane] & (bytes as u64 - 1) != 0;
        let low_bits = addresses.iter().fold(0, |all, address| all | address) & (bytes as u64 - 1);
        if low_bits != 0
            && let Some(lane) = lanes(active).find(wrong)
        {
            let address = addresses[lane];
            let verb = verb(kind);
            let message =
                format!("The kernel {verb} {bytes} bytes at an address that is no multiple of {bytes}: {address:#x}.");
            return Err(self.fault(Cause::Misaligned, message, lane, context));
        }
        if !O::IS_OFF && access.space != Space::Param {
            let window = match access.space {
                Space::Shared => SHARED_WINDOW,
                Space::Local => LOCAL_WINDOW,
                _ => 0,
            };
            for lane in lanes(active) {
                let frame = frame(&mut self.frames, lane, context);
                if within(access.space, addresses[lane], bytes, frame, context).is_none() {
                    return Ok(addresses);
                }
            }
            let generic = addresses.map(|address| address | window);
            observer.access(&self.moment(active, context), access, kind, elements, &generic)?;
        }
        Ok(addresses)
    }

    /// The fault of an access outside everything.
    #[cold]
    fn out_of_bounds(
        &self,
        access: &Access,
        kind: Use,
        elements: usize,
        (lane, address): (usize, u64),
        context: &Context,
    ) -> Fault {
        let (verb, bytes) = (verb(kind), usize::from(access.bytes) * elements);
        let place = context.describe(access.space, address);
        self.fault(Cause::OutOfBounds, format!("The kernel {verb} {bytes} bytes {place}."), lane, context)
    }

    /// Reads 8 bytes of a thread's frame; for calls of the runtime.
    pub(super) fn frame_value(&mut self, lane: usize, offset: i64, context: &Context) -> Option<u64> {
        let start = usize::try_from(offset).ok()?;
        frame(&mut self.frames, lane, context).get(start..start + 8).map(|bytes| read(bytes))
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

fn verb(kind: Use) -> &'static str {
    match kind {
        Use::Load => "reads",
        Use::Store => "writes",
        Use::Atomic => "updates",
    }
}

/// The memory of the first active lane, in which the others probably are too.
fn region<'m>(space: Space, addresses: &Lanes, active: u32, context: &'m mut Context) -> Option<Region<'m>> {
    let first = addresses[active.trailing_zeros() as usize % LANES];
    let (start, bytes) = match space {
        Space::Shared => (0, &mut *context.shared),
        Space::Param => (0, &mut *context.parameters),
        Space::Generic if first & SHARED_WINDOW != 0 => (SHARED_WINDOW, &mut *context.shared),
        Space::Global | Space::Const | Space::Generic => {
            let buffer = context.memory.buffer(first)?;
            (buffer.start, &mut *buffer.bytes)
        }
        Space::Local => return None,
    };
    Some(Region { start, bytes })
}

/// The lanes whose elements of `N` bytes are in a region, in which they are read.
fn load_lanes<const N: usize>(
    rows: &mut [Lanes],
    access: &Access,
    into: &[Row],
    active: u32,
    addresses: &Lanes,
    region: &Region,
) -> u32 {
    let mut done = 0;
    for lane in lanes(active) {
        let Some(offset) = addresses[lane].checked_sub(region.start).and_then(|offset| usize::try_from(offset).ok())
        else {
            continue;
        };
        let Some((elements, _)) =
            region.bytes.get(offset..).and_then(|rest| rest.get(..N * into.len())).map(<[u8]>::as_chunks::<N>)
        else {
            continue;
        };
        for (row, element) in into.iter().zip(elements) {
            if let Some(row) = rows.get_mut(*row as usize) {
                row[lane] = extend(number(*element), access);
            }
        }
        done |= 1 << lane;
    }
    done
}

/// The lanes whose elements of `N` bytes are in a region, in which they are written.
fn store_lanes<const N: usize>(rows: &[Lanes], from: &[Row], active: u32, addresses: &Lanes, region: Region) -> u32 {
    let mut done = 0;
    for lane in lanes(active) {
        let Some(offset) = addresses[lane].checked_sub(region.start).and_then(|offset| usize::try_from(offset).ok())
        else {
            continue;
        };
        let found = region.bytes.get_mut(offset..).and_then(|rest| rest.get_mut(..N * from.len()));
        let Some((elements, _)) = found.map(<[u8]>::as_chunks_mut::<N>) else { continue };
        for (row, element) in from.iter().zip(elements) {
            element.copy_from_slice(&rows[*row as usize][lane].to_le_bytes()[..N]);
        }
        done |= 1 << lane;
    }
    done
}

/// A lane's local memory.
fn frame<'f>(frames: &'f mut [u8], lane: usize, context: &Context) -> &'f mut [u8] {
    let bytes = usize::try_from(context.kernel.frame_bytes).unwrap_or(0);
    &mut frames[lane * bytes..(lane + 1) * bytes]
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

fn number<const N: usize>(bytes: [u8; N]) -> u64 {
    let mut all = [0; 8];
    all[..N].copy_from_slice(&bytes);
    u64::from_le_bytes(all)
}

/// A number of up to 8 bytes.
fn read(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte))
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
