//! Loads, stores and atomics.

use super::block::Context;
use super::observer::{AccessKind, Request};
use super::warp::{Warp, lanes};
use super::{LOCAL_WINDOW, SHARED_WINDOW};
use crate::compute::{self, Lanes, mask};
use crate::program::{Access, NONE, RowIndex, Update};
use crate::ptx::Space;
use crate::{Cause, Fault};

impl Warp {
    pub(super) fn load(&mut self, access: &Access, into: &[RowIndex], context: &mut Context) -> Result<(), Fault> {
        let bytes = usize::from(access.bytes);
        self.each_lane(access, (AccessKind::Load, into.len()), context, |rows, lane, found| {
            for (row, element) in into.iter().zip(found.chunks_exact(bytes)) {
                // Skips a loaded value that the instruction drops (`_`), because it has no register row.
                if let Some(row) = rows.get_mut(*row as usize) {
                    row[lane] = extend(read(element), access);
                }
            }
        })
    }

    pub(super) fn store(&mut self, access: &Access, from: &[RowIndex], context: &mut Context) -> Result<(), Fault> {
        let bytes = usize::from(access.bytes);
        self.each_lane(access, (AccessKind::Store, from.len()), context, |rows, lane, found| {
            for (row, element) in from.iter().zip(found.chunks_exact_mut(bytes)) {
                write(element, rows[*row as usize][lane]);
            }
        })
    }

    /// Updates memory lane by lane. Lanes that access the same buffer do so in ascending order. The first update is for global memory, the second for shared
    /// memory.
    pub(super) fn atomic(
        &mut self,
        access: &Access,
        ([update, shared_update], into, operands): ([Update; 2], RowIndex, [RowIndex; 2]),
        context: &mut Context,
    ) -> Result<(), Fault> {
        self.each_lane(access, (AccessKind::Atomic, 1), context, |rows, lane, found| {
            let (old, [b, c]) = (read(found), operands.map(|row| rows[row as usize][lane]));
            let is_shared = match access.space {
                Space::Generic => {
                    rows[access.base as usize][lane].wrapping_add_signed(access.offset) & SHARED_WINDOW != 0
                }
                space => space == Space::Shared,
            };
            let update = if is_shared { shared_update } else { update };
            write(found, update(old, b, c));
            if into != NONE {
                rows[into as usize][lane] = old;
            }
        })
    }

    /// Calls `work` for each active lane, with the registers, the lane and the bytes that it accesses. Observers see a valid access before it happens.
    fn each_lane(
        &mut self,
        access: &Access,
        (kind, elements): (AccessKind, usize),
        context: &mut Context,
        work: impl FnMut(&mut [Lanes], usize, &mut [u8]),
    ) -> Result<(), Fault> {
        let base = self.row(access.base);
        let addresses = base.map(|base| base.wrapping_add_signed(access.offset));
        let bytes = usize::from(access.bytes) * elements;
        let is_misaligned = |address: u64| address & (bytes as u64 - 1) != 0;
        if is_misaligned(addresses.iter().fold(0, |all, address| all | address))
            && let Some(lane) = lanes(context.active).find(|lane| is_misaligned(addresses[*lane]))
        {
            let (verb, address) = (VERBS[kind as usize], addresses[lane]);
            let place = context.describe(access.space, address, bytes as u64);
            let message = format!(
                "The kernel {verb} {bytes} bytes at {address:#x}, which is not a multiple of {bytes}; it is {place}."
            );
            return Err(self.fault(Cause::Misaligned, message, lane, context));
        }
        if !context.grid.observers.is_empty() && access.space != Space::Param {
            self.each_place(access.space, (kind, bytes), &addresses, context, |_, _, _| {})?;
            let window = match access.space {
                Space::Shared => SHARED_WINDOW,
                Space::Local => LOCAL_WINDOW,
                _ => 0,
            };
            let addresses = &addresses.map(|address| address | window);
            context.observe(self, |observer, moment| {
                observer.access(&Request { moment, access, kind, elements, addresses })
            })?;
        }
        self.each_place(access.space, (kind, bytes), &addresses, context, work)
    }

    /// Calls `work` for each active lane, with the registers, the lane and the bytes at its address.
    ///
    /// # Errors
    /// If a lane's bytes are not all in one region of memory, such as a buffer.
    fn each_place(
        &mut self,
        space: Space,
        (kind, bytes): (AccessKind, usize),
        addresses: &Lanes,
        context: &mut Context,
        mut work: impl FnMut(&mut [Lanes], usize, &mut [u8]),
    ) -> Result<(), Fault> {
        let mut left = context.active;
        while left != 0 {
            // Handles all lanes whose addresses are in the same buffer as the first lane's.
            let first = left.trailing_zeros() as usize;
            if let Some((start, found, sharing)) = region(space, addresses[first], first, &mut self.frames, context) {
                for lane in lanes(left & sharing) {
                    if let Some(found) = part(found, addresses[lane].wrapping_sub(start), bytes) {
                        work(&mut self.rows, lane, found);
                        left &= !(1 << lane);
                    }
                }
            }
            if left >> first & 1 == 1 {
                let (verb, place) = (VERBS[kind as usize], context.describe(space, addresses[first], bytes as u64));
                let message = format!("The kernel {verb} {bytes} bytes {place}.");
                return Err(self.fault(Cause::OutOfBounds, message, first, context));
            }
        }
        Ok(())
    }

    /// Returns the bytes at an address of a lane, for `printf` and assertions.
    pub(super) fn bytes<'m>(
        &'m mut self,
        lane: usize,
        (space, address): (Space, u64),
        bytes: usize,
        context: &'m mut Context,
    ) -> Option<&'m mut [u8]> {
        let (start, found, _) = region(space, address, lane, &mut self.frames, context)?;
        part(found, address.wrapping_sub(start), bytes)
    }
}

/// Verbs for messages, indexed by [`AccessKind`].
const VERBS: [&str; 3] = ["reads", "writes", "updates"];

fn part(all: &mut [u8], offset: u64, bytes: usize) -> Option<&mut [u8]> {
    let start = usize::try_from(offset).ok()?;
    all.get_mut(start..start.checked_add(bytes)?)
}

/// Finds the memory that contains an address. Returns its start address, its bytes, and a mask of the lanes that can access it.
fn region<'m>(
    space: Space,
    address: u64,
    lane: usize,
    frames: &'m mut [u8],
    context: &'m mut Context,
) -> Option<(u64, &'m mut [u8], u32)> {
    let bytes = usize::try_from(context.grid.kernel.frame_bytes).unwrap_or(0);
    let frame = lane * bytes..(lane + 1) * bytes;
    Some(match space {
        Space::Shared => (0, context.shared, u32::MAX),
        Space::Local => (0, &mut frames[frame], 1 << lane),
        Space::Param => (0, &mut context.grid.parameters, u32::MAX),
        Space::Generic if address & SHARED_WINDOW != 0 => (SHARED_WINDOW, context.shared, u32::MAX),
        Space::Generic if address & LOCAL_WINDOW != 0 => (LOCAL_WINDOW, &mut frames[frame], 1 << lane),
        Space::Global | Space::Const | Space::Generic => {
            let buffer = context.grid.memory.buffer(address)?;
            (buffer.start, &mut buffer.bytes, u32::MAX)
        }
    })
}

/// Reads a little-endian number of up to 8 bytes.
pub(crate) fn read(bytes: &[u8]) -> u64 {
    match *bytes {
        [a, b, c, d] => u32::from_le_bytes([a, b, c, d]).into(),
        [a, b, c, d, e, f, g, h] => u64::from_le_bytes([a, b, c, d, e, f, g, h]),
        _ => bytes.iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte)),
    }
}

pub(super) fn write(bytes: &mut [u8], value: u64) {
    let value = value.to_le_bytes();
    match bytes.len() {
        4 => bytes.copy_from_slice(&value[..4]),
        8 => bytes.copy_from_slice(&value),
        length => bytes.copy_from_slice(&value[..length]),
    }
}

/// Extends a loaded value to the width of its register, with zeros or with its sign.
pub(crate) fn extend(value: u64, access: &Access) -> u64 {
    if access.sign_to <= access.bytes {
        return value;
    }
    compute::extend(value, access.bytes).cast_unsigned() & mask(access.sign_to)
}

#[cfg(test)]
mod tests {
    use crate::{Argument, Gpu, Launch, Module};

    /// Returns the bits of the sum that an atomic adds to a number in global memory and in shared memory.
    fn sums(opcode: &str, old: u32, added: u32) -> [u32; 2] {
        let (into, add) = if opcode.starts_with("atom") { ("%old, ", opcode) } else { ("", opcode) };
        let [to_global, to_shared] = if opcode.contains(".global") || opcode.contains(".shared") {
            [opcode.contains(".global"), opcode.contains(".shared")]
        } else {
            [true, true]
        };
        let line = |exists: bool, address: &str| {
            if exists { format!("{add} {into}[{address}], %added;") } else { String::new() }
        };
        let shared = if opcode.contains(".shared") { "%shared" } else { "%generic" };
        let ptx = format!(
            ".version 7.0\n.target sm_80\n.address_size 64\n.entry k(.param .u64 a) {{\n\
             .reg .b64 %global, %shared, %generic; .reg .b32 %old, %added; .shared .align 4 .b8 s[8];\n\
             ld.param.u64 %global, [a]; mov.u64 %shared, s; cvta.shared.u64 %generic, %shared;\n\
             mov.u32 %added, {added}; st.global.u32 [%global], {old}; st.shared.u32 [%shared], {old};\n\
             {}\n{}\nld.shared.u32 %old, [%shared]; st.global.u32 [%global+4], %old; ret; }}",
            line(to_global, "%global"),
            line(to_shared, shared)
        );
        let (module, mut gpu, mut bytes) = (Module::parse(&ptx).unwrap(), Gpu::new(), [0; 8]);
        let kernel = gpu.load(&module).unwrap().kernel("k").unwrap();
        let address = gpu.allocate(8).unwrap();
        gpu.launch(&kernel, &Launch::new(1, 1), &[Argument::U64(address)]).unwrap();
        gpu.read(address, &mut bytes).unwrap();
        let [a, b, c, d, e, f, g, h] = bytes;
        [u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h])]
    }

    #[test]
    fn atomics_flush_denormals_in_global_memory_only() {
        // The smallest normal number is 0x0080_0000, and bit 31 is the sign.
        for prefix in ["atom", "red"] {
            let add = |space: &str, old, added| sums(&format!("{prefix}{space}.add.f32"), old, added);
            assert_eq!(add("", 1, 2), [0, 3]);
            assert_eq!(add(".global", 1, 2), [0, 1]);
            assert_eq!(add(".shared", 1, 2), [1, 3]);
            assert_eq!(add("", 0x8000_0001, 0x8000_0002), [0x8000_0000, 0x8000_0003]);
            assert_eq!(add("", 0x0080_0001, 0x8080_0000), [0, 1]);
            assert_eq!(add("", 0x0080_0000, 1), [0x0080_0000, 0x0080_0001]);
        }
    }
}
