//! Tracks unwritten values bit by bit through registers and memory. An unwritten value is a fault only if an address, a branch or a stored result depends on
//! it.

use super::flow::{Comparing, Flow};
use super::words::{element, line};
use crate::compute::{LANES, Lanes, mask, ones};
use crate::machine::{
    Identity, LOCAL_WINDOW, Memory, Moment, Request, SHARED_WINDOW, Unwritten, extend, lanes, read, start,
};
use crate::program::{Access, Action, BarrierKind, Collective, CollectiveKind, Comparison, Kernel, NONE, RowIndex};
use crate::ptx::Space;
use crate::{Cause, Fault};
use std::collections::BTreeMap;

/// Unwritten bits in the registers of a warp. All vectors are indexed by row: a register across the 32 lanes.
#[derive(Debug)]
struct Registers {
    /// Mask of the lanes that have an unwritten bit, for each row.
    unclear: Vec<u32>,
    /// Unwritten bits of each lane, for each row.
    bits: Vec<Lanes>,
    /// The instruction that loaded the unwritten bits, for each row; [`NONE`] if the register was never set.
    origin: Vec<u32>,
    /// Loads of unwritten bits, by instruction: the size of an element in bytes, and the latest generic address of each lane; 0 if the lane loaded none.
    loads: BTreeMap<u32, (u8, Lanes)>,
}

/// Unwritten bits in the registers and memory of a resident block.
#[derive(Debug)]
struct UnwrittenBits {
    warps: Vec<Registers>,
    /// Unwritten bits of the block's shared memory. `frames` has the unwritten bits of all threads' local memory.
    shared: Vec<u8>,
    frames: Vec<u8>,
}

/// The check for unwritten values in one launch.
#[derive(Debug)]
pub(super) struct UnwrittenCheck {
    /// How bits propagate through each instruction that computes or compares; both vectors are indexed by instruction.
    flows: Vec<Flow>,
    comparisons: Vec<Comparing>,
    /// Mask of the bits in each register; 0 for rows that always have a value, such as constants.
    widths: Vec<u64>,
    frame_bytes: usize,
    blocks: Vec<UnwrittenBits>,
    /// Unwritten bits of each buffer in global memory.
    buffers: Vec<Unwritten>,
}

impl UnwrittenCheck {
    pub(super) fn new(kernel: &Kernel, memory: &Memory) -> Self {
        Self {
            flows: kernel.steps.iter().map(|step| Flow::for_opcode(&step.opcode)).collect(),
            comparisons: kernel.steps.iter().map(|step| Comparing::for_opcode(&step.opcode)).collect(),
            widths: kernel.rows.iter().map(|row| row.register_mask()).collect(),
            frame_bytes: usize::try_from(kernel.frame_bytes).unwrap_or(0),
            blocks: Vec::new(),
            buffers: memory.buffers.iter().map(|buffer| buffer.unwritten.clone()).collect(),
        }
    }

    /// Copies to the memory which bytes of its buffers are still unwritten.
    pub(super) fn note(self, memory: &mut Memory) {
        for (buffer, unwritten) in memory.buffers.iter_mut().zip(self.buffers) {
            buffer.unwritten = unwritten;
        }
    }

    pub(super) fn block_starts(&mut self, identity: &Identity) {
        let threads = identity.threads_of_block();
        let shared = usize::try_from(identity.shared_bytes).unwrap_or(0);
        let warp = || Registers {
            unclear: self.widths.iter().map(|mask| if *mask == 0 { 0 } else { u32::MAX }).collect(),
            bits: self.widths.iter().map(|mask| [*mask; LANES]).collect(),
            origin: vec![NONE; self.widths.len()],
            loads: BTreeMap::new(),
        };
        let block = UnwrittenBits {
            warps: (0..threads.div_ceil(32)).map(|_| warp()).collect(),
            shared: vec![0xff; shared],
            frames: vec![0xff; self.frame_bytes * threads.next_multiple_of(32) as usize],
        };
        start(&mut self.blocks, identity, block);
    }

    pub(super) fn step(&mut self, moment: &Moment) -> Result<(), Fault> {
        let (step, active) = (moment.step(), moment.active);
        let at = moment.at as usize;
        let registers = &mut self.blocks[moment.identity.resident].warps[moment.warp as usize];
        if let Some((guard, _)) = step.guard {
            let what = if matches!(step.action, Action::Branch(_)) { "A branch" } else { "An instruction" };
            registers.demand(guard, moment.lanes, 1, moment, || format!("{what} depends on"))?;
        }
        match &step.action {
            Action::Compute { into: NONE, .. } => {}
            Action::Compute { compute, into, from } => {
                let sources = from.iter().take(compute.operands());
                let unclear = sources.clone().fold(0, |all, row| all | registers.unclear[*row as usize]) & active;
                if unclear == 0 {
                    registers.unclear[*into as usize] &= !active;
                    return Ok(());
                }
                let (mut values, mut bits) = ([[0; LANES]; 4], [[0; LANES]; 4]);
                for (at, row) in sources.clone().enumerate() {
                    (values[at], bits[at]) = (moment.rows[*row as usize], registers.bits(*row));
                }
                let result = self.flows[at].through(*compute, &values, &bits);
                let origin = registers.first_origin(sources.copied(), active);
                registers.set(*into, active, &result, self.widths[*into as usize], origin);
            }
            Action::Compare(comparison) => registers.compare(comparison, self.comparisons[at], moment),
            Action::Pack { into, parts, bits } => {
                let mut result = [0; LANES];
                for (part, row) in (0..).zip(parts) {
                    let of_part = registers.bits(*row);
                    (0..LANES).for_each(|lane| result[lane] |= (of_part[lane] & ones(*bits)) << (part * bits));
                }
                let origin = registers.first_origin(parts.iter().copied(), active);
                registers.set(*into, active, &result, u64::MAX, origin);
            }
            Action::Unpack { from, parts, bits } => {
                let (whole, origin) = (registers.bits(*from), registers.origin[*from as usize]);
                for (part, row) in (0..).zip(parts).filter(|(_, row)| **row != NONE) {
                    registers.set(*row, active, &whole.map(|v| (v >> (part * bits)) & ones(*bits)), u64::MAX, origin);
                }
            }
            Action::Load(access, into) => {
                registers.demand_address(access, moment)?;
                if access.space == Space::Param {
                    into.iter().for_each(|row| registers.clear(*row, active));
                }
            }
            Action::Store(access, _) | Action::Atomic { access, .. } => registers.demand_address(access, moment)?,
            Action::BranchTable(index, _) => {
                registers.demand(*index, active, u64::MAX, moment, || "A `switch` depends on".into())?;
            }
            Action::Barrier(barrier) => {
                if let BarrierKind::Reduce { from, into, .. } = barrier.kind {
                    let is_open = registers.unclear[from as usize] & active != 0;
                    let origin = registers.origin[from as usize];
                    registers.set(into, active, &[if is_open { u64::MAX } else { 0 }; LANES], u64::MAX, origin);
                }
            }
            Action::ActiveMask(into) | Action::Clock(into) => registers.clear(*into, active),
            Action::Print([.., offset]) => {
                for lane in lanes(active) {
                    let start = self.frame_bytes * (moment.warp as usize * LANES + lane);
                    let start = start + usize::try_from(*offset).unwrap_or(0);
                    self.blocks[moment.identity.resident].frames[start..start + 4].fill(0);
                }
            }
            _ => {}
        }
        Ok(())
    }

    pub(super) fn access(&mut self, request: &Request) -> Result<(), Fault> {
        match &request.moment.step().action {
            Action::Load(_, into) => self.load(request, into),
            Action::Store(_, from) => self.store(request, from)?,
            Action::Atomic { into, operands, .. } => self.atomic(request, *into, *operands)?,
            _ => {}
        }
        Ok(())
    }

    fn registers(&mut self, moment: &Moment) -> &mut Registers {
        &mut self.blocks[moment.identity.resident].warps[moment.warp as usize]
    }

    fn load(&mut self, request: &Request, into: &[RowIndex]) {
        let Request { moment, access, addresses, elements, .. } = *request;
        let bytes = usize::from(access.bytes) * elements;
        let mut unclear = [0; 4];
        for lane in lanes(moment.active) {
            let mut found = [0; 16];
            if !self.read(moment, lane, addresses[lane], &mut found[..bytes]) {
                continue;
            }
            let registers = self.registers(moment);
            for (at, (row, bits)) in into.iter().zip(found.chunks_exact(access.bytes.into())).enumerate() {
                let bits = extend(read(bits), access);
                if bits != 0 && *row != NONE {
                    registers.bits[*row as usize][lane] = bits;
                    unclear[at] |= 1 << lane;
                    let address = addresses[lane] + u64::from(access.bytes) * at as u64;
                    registers.loads.entry(moment.at).or_insert((access.bytes, [0; LANES])).1[lane] = address;
                }
            }
        }
        let registers = self.registers(moment);
        for (row, unclear) in into.iter().zip(unclear).filter(|(row, _)| **row != NONE) {
            let row = *row as usize;
            registers.unclear[row] = registers.unclear[row] & !moment.active | unclear;
            if unclear != 0 {
                registers.origin[row] = moment.at;
            }
        }
    }

    fn store(&mut self, request: &Request, from: &[RowIndex]) -> Result<(), Fault> {
        let Request { moment, access, addresses, elements, .. } = *request;
        let size = usize::from(access.bytes);
        let registers = self.registers(moment);
        let unclear = from.iter().fold(0, |all, row| all | registers.unclear[*row as usize]);
        for lane in lanes(moment.active) {
            let mut bits = [0; 16];
            if unclear >> lane & 1 == 1 {
                let elements = (addresses[lane]..).step_by(size).zip(bits.chunks_exact_mut(size));
                for (row, (address, into)) in from.iter().zip(elements) {
                    into.copy_from_slice(&self.registers(moment).bits(*row)[lane].to_le_bytes()[..size]);
                    self.demand_stored(moment, *row, lane, address, into)?;
                }
            }
            self.write(moment, lane, addresses[lane], &bits[..size * elements]);
        }
        Ok(())
    }

    fn atomic(&mut self, request: &Request, into: RowIndex, operands: [RowIndex; 2]) -> Result<(), Fault> {
        let Request { moment, access, addresses, .. } = *request;
        let bytes = usize::from(access.bytes);
        let is_exchange = moment.step().opcode.contains(".exch.");
        let width = mask(access.bytes);
        let mut result = [0; LANES];
        for lane in lanes(moment.active) {
            let mut old = [0; 8];
            self.read(moment, lane, addresses[lane], &mut old[..bytes]);
            result[lane] = read(&old[..bytes]);
            let bits = operands.map(|row| self.registers(moment).bits(row)[lane] & width);
            let new = if is_exchange { bits[0] } else { result[lane] | bits[0] | bits[1] };
            let new = if new == 0 { 0u64 } else { u64::MAX }.to_le_bytes();
            let unwritten = operands.into_iter().zip(bits).find(|(_, bits)| *bits != 0);
            let row = unwritten.map_or(NONE, |(row, _)| row);
            self.demand_stored(moment, row, lane, addresses[lane], &new[..bytes])?;
            self.write(moment, lane, addresses[lane], &new[..bytes]);
        }
        self.registers(moment).set(into, moment.active, &result, u64::MAX, moment.at);
        Ok(())
    }

    /// Moves unwritten bits between the lanes of a collective operation. A value from a lane that does not take part is unwritten.
    pub(super) fn collective(&mut self, moment: &Moment, parties: &[(u32, &Collective)]) {
        let rows = moment.rows;
        let registers = &mut self.blocks[moment.identity.resident].warps[moment.warp as usize];
        let all = parties.iter().fold(0, |all, (lanes, _)| all | lanes);
        let (mut operands, mut values, mut origin) = ([[0; LANES]; 3], [[0; LANES]; 3], NONE);
        for (mask, collective) in parties {
            for (at, row) in collective.from.iter().enumerate().filter(|(_, row)| **row != NONE) {
                let bits = registers.bits(*row);
                for lane in lanes(*mask) {
                    (operands[at][lane], values[at][lane]) = (bits[lane], rows[*row as usize][lane]);
                }
                if registers.unclear[*row as usize] & mask != 0 {
                    origin = registers.origin[*row as usize];
                }
            }
        }
        let is_any_open = lanes(all).any(|lane| operands[0][lane] != 0);
        let with_truth = |truth: u64| lanes(all).any(|lane| operands[0][lane] & 1 == 0 && values[0][lane] & 1 == truth);
        for (mask, collective) in parties {
            let spread = |is_open: bool| [if is_open { u64::MAX } else { 0 }; LANES];
            let negated = u64::from(collective.is_negated);
            let bits = match collective.kind {
                CollectiveKind::Wait => spread(false),
                CollectiveKind::Shuffle(mode) => {
                    let from = crate::machine::sources(mode, &values[1], &values[2]);
                    std::array::from_fn(|lane| {
                        let is_open = operands[1][lane] | operands[2][lane] != 0 || all >> from[lane].0 & 1 == 0;
                        if is_open { u64::MAX } else { operands[0][from[lane].0] }
                    })
                }
                CollectiveKind::VoteAll => spread(is_any_open && !with_truth(negated)),
                CollectiveKind::VoteAny => spread(is_any_open && !with_truth(1 ^ negated)),
                CollectiveKind::Ballot => {
                    [lanes(all).fold(0, |bits, lane| bits | (operands[0][lane] & 1) << lane); LANES]
                }
                _ => spread(is_any_open),
            };
            let width = |row: RowIndex| self.widths.get(row as usize).copied().unwrap_or(0);
            registers.set(collective.into, *mask, &bits, width(collective.into), origin);
            let is_match = matches!(collective.kind, CollectiveKind::MatchAll);
            registers.set(collective.predicate_into, *mask, &spread(is_match && is_any_open), 0xff, origin);
        }
    }

    /// Copies the unwritten bits at an address into a slice. Returns true if any bit is unwritten.
    fn read(&mut self, moment: &Moment, lane: usize, address: u64, into: &mut [u8]) -> bool {
        if let Some(bits) = self.bits(moment, lane, address, into.len()) {
            into.copy_from_slice(bits);
        }
        into.iter().any(|byte| *byte != 0)
    }

    fn write(&mut self, moment: &Moment, lane: usize, address: u64, from: &[u8]) {
        if let Some(bits) = self.bits(moment, lane, address, from.len()) {
            bits.copy_from_slice(from);
        }
    }

    /// Returns the unwritten bits of memory at a generic address; `None` if all of the buffer has been written.
    fn bits(&mut self, moment: &Moment, lane: usize, address: u64, bytes: usize) -> Option<&mut [u8]> {
        let place = |address: u64| usize::try_from(address).unwrap_or(usize::MAX);
        let block = &mut self.blocks[moment.identity.resident];
        if address & SHARED_WINDOW != 0 {
            let start = place(address ^ SHARED_WINDOW);
            return block.shared.get_mut(start..start + bytes);
        }
        if address & LOCAL_WINDOW != 0 {
            let frame = self.frame_bytes * (moment.warp as usize * LANES + lane);
            let start = frame + place(address ^ LOCAL_WINDOW);
            return block.frames.get_mut(start..start + bytes);
        }
        let index = moment.memory.index(address)?;
        let buffer = &moment.memory.buffers[index];
        let offset = place(address - buffer.start);
        self.buffers[index].bits(buffer.bytes.len())?.get_mut(offset..offset + bytes)
    }

    /// Returns a fault if unwritten bits are stored to global memory.
    fn demand_stored(
        &self,
        moment: &Moment,
        row: RowIndex,
        lane: usize,
        address: u64,
        bits: &[u8],
    ) -> Result<(), Fault> {
        if address & (SHARED_WINDOW | LOCAL_WINDOW) != 0 || bits.iter().all(|byte| *byte == 0) {
            return Ok(());
        }
        let registers = &self.blocks[moment.identity.resident].warps[moment.warp as usize];
        let place = element(address, bits.len() as u64, moment);
        let message = match row {
            NONE => format!("An atomic operation updates {place}, which nobody has written."),
            _ => format!("The value that is written to {place} depends on {}.", registers.story(row, lane, moment)),
        };
        Err(moment.fault(Cause::Unwritten, lane, message))
    }
}

impl Registers {
    fn bits(&self, row: RowIndex) -> Lanes {
        let row = row as usize;
        let unclear = self.unclear.get(row).copied().unwrap_or(0);
        if unclear == 0 {
            return [0; LANES];
        }
        std::array::from_fn(|lane| if unclear >> lane & 1 == 1 { self.bits[row][lane] } else { 0 })
    }

    fn clear(&mut self, row: RowIndex, active: u32) {
        if let Some(unclear) = self.unclear.get_mut(row as usize) {
            *unclear &= !active;
        }
    }

    fn set(&mut self, row: RowIndex, active: u32, bits: &Lanes, width: u64, origin: u32) {
        self.clear(row, active);
        for lane in lanes(active).filter(|lane| row != NONE && bits[*lane] & width != 0) {
            self.bits[row as usize][lane] = bits[lane] & width;
            self.unclear[row as usize] |= 1 << lane;
            self.origin[row as usize] = origin;
        }
    }

    fn first_origin(&self, mut rows: impl Iterator<Item = RowIndex>, active: u32) -> u32 {
        rows.find(|row| self.unclear[*row as usize] & active != 0).map_or(NONE, |row| self.origin[row as usize])
    }

    fn compare(&mut self, comparison: &Comparison, flow: Comparing, moment: &Moment) {
        let (active, [a, b]) = (moment.active, comparison.from);
        let third = comparison.combine.map(|(_, row, is_negated)| (row, u64::from(is_negated)));
        let rows = [Some(a), Some(b), third.map(|(row, _)| row)];
        let unclear = rows.iter().flatten().fold(0, |all, row| all | self.unclear[*row as usize]) & active;
        if unclear == 0 {
            self.clear(comparison.into, active);
            self.clear(comparison.opposite_into, active);
            return;
        }
        let value = |row: RowIndex| &moment.rows[row as usize];
        let mut outcome = [0; LANES];
        (comparison.compare)(&mut outcome, value(a), value(b));
        let (x, y) = (self.bits(a), self.bits(b));
        let z = third.map(|(row, negated)| (value(row).map(|bit| bit ^ negated), self.bits(row)));
        let open = |opposite: u64| -> Lanes {
            std::array::from_fn(|lane| {
                let is_open = flow.is_open([value(a)[lane], value(b)[lane]], [x[lane], y[lane]]);
                let third = z.map_or((0, false), |(values, bits)| (values[lane], bits[lane] & 1 != 0));
                u64::from(flow.is_combination_open((outcome[lane] ^ opposite, is_open), third))
            })
        };
        let origin = self.first_origin(rows.into_iter().flatten(), active);
        self.set(comparison.into, active, &open(0), 1, origin);
        self.set(comparison.opposite_into, active, &open(1), 1, origin);
    }

    fn demand_address(&self, access: &Access, moment: &Moment) -> Result<(), Fault> {
        self.demand(access.base, moment.active, u64::MAX, moment, || "An address depends on".into())
    }

    /// Returns a fault if any of the given bits of a register is unwritten in one of the lanes in `mask`.
    fn demand(
        &self,
        row: RowIndex,
        mask: u32,
        bits: u64,
        moment: &Moment,
        what: impl Fn() -> String,
    ) -> Result<(), Fault> {
        let unclear = self.unclear[row as usize] & mask;
        let Some(lane) = lanes(unclear).find(|lane| self.bits[row as usize][*lane] & bits != 0) else {
            return Ok(());
        };
        let message = format!("{} {}.", what(), self.story(row, lane, moment));
        Err(moment.fault(Cause::Unwritten, lane, message))
    }

    /// Describes where a lane's unwritten value comes from.
    fn story(&self, row: RowIndex, lane: usize, moment: &Moment) -> String {
        match self.origin.get(row as usize) {
            Some(&at) if at != NONE => {
                let line = line(moment.kernel, at, moment.at);
                let loads = self.loads.get(&at).filter(|(_, addresses)| addresses[lane] != 0);
                let loaded = loads.map_or(String::new(), |(bytes, addresses)| {
                    format!(": {}", element(addresses[lane], (*bytes).into(), moment))
                });
                format!("something that nobody has written, which was read in {line}{loaded}")
            }
            _ => "a variable that was never set".into(),
        }
    }
}
