//! Counts of what a kernel does to memory and how its lanes part, by source line. They are counts of PTX, and never times.

mod memory;
mod table;

use crate::compute::{LANES, Lanes};
use crate::machine::{LOCAL_WINDOW, Moment, Observer, SHARED_WINDOW, Use, lanes};
use crate::program::{Access, Action, Kernel};
use crate::{Fault, Place};
use std::collections::HashMap;
use std::sync::Arc;

/// Counts of one line of the source.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LineCounts {
    /// The file's name, as it was given to the compiler; empty for instructions without a place.
    pub file: String,
    /// Line, counted from 1.
    pub line: u32,
    /// Instructions of warps, and of their active lanes.
    pub instructions: u64,
    /// Sum of active lanes over all instructions.
    pub lanes: u64,
    /// Requests of warps to global memory.
    pub global_requests: u64,
    /// Sectors of 32 bytes that these requests touch.
    pub global_sectors: u64,
    /// Fewest sectors that their active lanes could do with.
    pub global_ideal: u64,
    /// Requests of warps to shared memory.
    pub shared_requests: u64,
    /// Wavefronts that serve them.
    pub shared_wavefronts: u64,
    /// Wavefronts without bank conflicts.
    pub shared_ideal: u64,
    /// Branches of warps.
    pub branches: u64,
    /// Branches at which active lanes go different ways.
    pub divergent_branches: u64,
    /// Atomic operations of warps.
    pub atomics: u64,
    /// Sum over atomic operations of the most lanes that share an address.
    pub lanes_on_one_address: u64,
    /// Bytes that active lanes read or write in global memory.
    pub global_bytes: u64,
    /// Bytes that they read or write in shared memory.
    pub shared_bytes: u64,
    /// Bytes that they read or write in local memory.
    pub local_bytes: u64,
}

impl LineCounts {
    /// Mean of active lanes of an instruction; 0 if there was none.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn mean_lanes(&self) -> f64 {
        if self.instructions == 0 { 0.0 } else { self.lanes as f64 / self.instructions as f64 }
    }

    /// Adds the counts of another line; file and line stay.
    fn add(&mut self, other: &Self) {
        let Self { file: _, line: _, instructions, lanes, .. } = other;
        self.instructions += instructions;
        self.lanes += lanes;
        self.global_requests += other.global_requests;
        self.global_sectors += other.global_sectors;
        self.global_ideal += other.global_ideal;
        self.shared_requests += other.shared_requests;
        self.shared_wavefronts += other.shared_wavefronts;
        self.shared_ideal += other.shared_ideal;
        self.branches += other.branches;
        self.divergent_branches += other.divergent_branches;
        self.atomics += other.atomics;
        self.lanes_on_one_address += other.lanes_on_one_address;
        self.global_bytes += other.global_bytes;
        self.shared_bytes += other.shared_bytes;
        self.local_bytes += other.local_bytes;
    }
}

/// Counts of a launch by source line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Lines with instructions that ran, by file and line.
    pub lines: Vec<LineCounts>,
}

impl Counts {
    /// The sum over all lines; file and line are empty.
    #[must_use]
    pub fn total(&self) -> LineCounts {
        let mut total = LineCounts::default();
        self.lines.iter().for_each(|line| total.add(line));
        total
    }

    /// The counts of a line of a file.
    #[must_use]
    pub fn line(&self, file: &str, line: u32) -> Option<&LineCounts> {
        self.lines.iter().find(|counts| counts.line == line && counts.file == file)
    }
}

/// Counts a launch.
#[derive(Debug)]
pub(crate) struct Counter {
    lines: Vec<LineCounts>,
    /// By instruction: its index in `lines`.
    line_of: Vec<u32>,
}

impl Counter {
    pub(crate) fn new(kernel: &Kernel) -> Self {
        let mut lines: Vec<LineCounts> = Vec::new();
        let mut known = HashMap::new();
        let mut line_of = Vec::with_capacity(kernel.steps.len());
        for step in &kernel.steps {
            let key = |place: &Arc<Place>| (place.file.to_string(), place.line);
            let key = step.place.as_ref().map_or((String::new(), 0), key);
            line_of.push(*known.entry(key).or_insert_with_key(|(file, line)| {
                lines.push(LineCounts { file: file.clone(), line: *line, ..LineCounts::default() });
                u32::try_from(lines.len() - 1).unwrap_or(0)
            }));
        }
        Self { lines, line_of }
    }

    /// The counts, without lines in which nothing ran.
    pub(crate) fn finish(self) -> Counts {
        let mut lines: Vec<LineCounts> = self.lines.into_iter().filter(|line| line.instructions > 0).collect();
        lines.sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
        Counts { lines }
    }
}

impl Observer for Counter {
    fn step(&mut self, moment: &Moment) -> Result<(), Fault> {
        let line = &mut self.lines[self.line_of[moment.at as usize] as usize];
        line.instructions += 1;
        line.lanes += u64::from(moment.active.count_ones());
        match &moment.step().action {
            // Lanes whose guard is false go on with the next instruction.
            Action::Branch(_) => {
                line.branches += 1;
                line.divergent_branches += u64::from(moment.active != 0 && moment.active != moment.lanes);
            }
            Action::BranchTable { index, targets } => {
                line.branches += 1;
                let target = |lane: usize| targets.get(usize::try_from(moment.rows[*index as usize][lane]).ok()?);
                let mut all = lanes(moment.active).map(target);
                let first = all.next();
                line.divergent_branches += u64::from(all.any(|other| Some(other) != first));
            }
            _ => {}
        }
        Ok(())
    }

    fn access(
        &mut self,
        moment: &Moment,
        access: &Access,
        kind: Use,
        elements: usize,
        addresses: &Lanes,
    ) -> Result<(), Fault> {
        if moment.active == 0 {
            return Ok(());
        }
        let line = &mut self.lines[self.line_of[moment.at as usize] as usize];
        let bytes = u64::from(access.bytes) * elements as u64;
        let among = |window: u64| {
            let is_there = |lane: &usize| addresses[*lane] & (SHARED_WINDOW | LOCAL_WINDOW) == window;
            lanes(moment.active).filter(is_there).fold(0, |mask, lane| mask | 1u32 << lane)
        };
        let (shared, local) = (among(SHARED_WINDOW), among(LOCAL_WINDOW));
        let global = moment.active & !shared & !local;
        let moved = |mask: u32| u64::from(mask.count_ones()) * bytes;
        line.local_bytes += moved(local);
        line.global_bytes += moved(global);
        line.shared_bytes += moved(shared);
        if global != 0 {
            let sectors = memory::sectors(addresses, global, bytes);
            line.global_requests += 1;
            line.global_sectors += sectors;
            line.global_ideal += moved(global).div_ceil(memory::SECTOR).min(sectors);
        }
        if shared != 0 {
            line.shared_requests += 1;
            line.shared_wavefronts += memory::wavefronts(addresses, shared, bytes);
            line.shared_ideal += memory::ideal_wavefronts(shared, bytes);
        }
        if kind == Use::Atomic {
            line.atomics += 1;
            line.lanes_on_one_address += memory::most_on_one_address(addresses, moment.active);
        }
        Ok(())
    }
}

const _: () = assert!(LANES == 32);
