//! Measurements that a lesson makes in addition to ladders and ceilings. Without a GPU each says that it needs one.

use super::regression::epoch_bound;
use super::{table, title, valid};
use crate::figures;
use crate::prelude::profile::*;
use crate::prelude::*;
use warpbook_charts::Table;
use warpbook_device::{WgmmaRounds, exchange, mma_sync_peak, read_together, shared_read_cycles};
use warpbook_record::{ComputePeak, MemoryLevel, Peaks};

/// Number of banks of shared memory, each a word wide.
const BANKS: usize = 32;

fn on_the_gpu(what: &str) -> String {
    format!("{what} needs a GPU, so it was not measured here.")
}

/// A warp's read of shared memory, with its addresses and the cycles it took.
#[derive(Debug, Clone, PartialEq)]
pub struct WarpRead {
    /// Name of the rung with this read.
    pub name: &'static str,
    /// Number of bytes that each lane reads.
    pub bytes: u32,
    /// Offset in shared memory at which each lane reads.
    pub offsets: [u32; 32],
    /// Cycles per read, with many in flight; `None` if it was not measured.
    pub cycles: Option<f64>,
}

impl WarpRead {
    fn new(name: &'static str, bytes: u32, place: impl Fn(u32) -> u32) -> Self {
        Self { name, bytes, offsets: std::array::from_fn(|lane| place(lane as u32)), cycles: None }
    }

    /// Returns the number of different addresses among the lanes.
    #[must_use]
    pub fn different(&self) -> usize {
        let mut all = self.offsets.to_vec();
        all.sort_unstable();
        all.dedup();
        all.len()
    }

    /// Returns the number of wavefronts if `lanes` lanes are served together: for each group of lanes, the largest number of different words in one bank.
    fn wavefronts_of(&self, lanes: usize) -> u32 {
        let wavefronts = |offsets: &[u32]| {
            let mut words: Vec<u32> =
                offsets.iter().flat_map(|o| (0..self.bytes / 4).map(move |w| o / 4 + w)).collect();
            words.sort_unstable();
            words.dedup();
            let in_bank = |bank| words.iter().filter(|w| **w as usize % BANKS == bank).count() as u32;
            (0..BANKS).map(in_bank).max().unwrap_or(0)
        };
        self.offsets.chunks(lanes).map(wavefronts).sum()
    }

    /// Returns the number of wavefronts if equal addresses are merged across the whole warp.
    #[must_use]
    pub fn merged(&self) -> u32 {
        self.wavefronts_of(32)
    }

    /// Returns the number of wavefronts if a read of more than 4 bytes a lane is served half a warp at a time, and equal addresses are merged within the half.
    #[must_use]
    pub fn by_halves(&self) -> u32 {
        self.wavefronts_of(if self.bytes > 4 { 16 } else { 32 })
    }
}

/// Measurement of how shared memory serves the reads of rungs 03 to 08: see [`shared_wavefronts`].
#[derive(Debug, Clone, PartialEq)]
pub struct WarpReads {
    device: String,
    /// Reads of shared memory, with their measured cycles.
    pub reads: Vec<WarpRead>,
}

/// Returns the reads to measure: some with a known number of wavefronts, and the fragments of rungs 06 and 07.
fn reads() -> Vec<WarpRead> {
    // Rung 06 has 16 threads across. In rung 07, lanes 0 and 1 are in one column, and there are four columns across.
    let of_07 = |lane: u32| (lane / 2 / 4 * 2 + lane % 2, lane / 2 % 4);
    vec![
        WarpRead::new("4 bytes a lane, neighbours", 4, |lane| lane * 4),
        WarpRead::new("4 bytes a lane, every fourth word", 4, |lane| lane * 16),
        WarpRead::new("4 bytes a lane, all the same", 4, |_| 0),
        WarpRead::new("16 bytes a lane, neighbours", 16, |lane| lane * 16),
        WarpRead::new("16 bytes a lane, all the same", 16, |_| 0),
        WarpRead::new("rung 06, a fragment of A", 16, |lane| lane / 16 * 16),
        WarpRead::new("rung 06, a fragment of B", 16, |lane| lane % 16 * 16),
        WarpRead::new("rung 07, a fragment of A", 16, move |lane| of_07(lane).0 * 16),
        WarpRead::new("rung 07, a fragment of B", 16, move |lane| of_07(lane).1 * 16),
    ]
}

/// Measures whether equal 16-byte addresses are merged across a warp: the cycles that shared memory of an SM is busy with a read.
///
/// # Errors
/// If the device reports an error.
pub fn shared_wavefronts(lab: &Lab) -> Result<WarpReads> {
    let mut all = WarpReads { device: lab.device().info().name.clone(), reads: reads() };
    if let Some(device) = lab.device().cuda() {
        for read in &mut all.reads {
            read.cycles = Some(shared_read_cycles(device, read.bytes, &read.offsets)?);
        }
    }
    Ok(all)
}

impl WarpReads {
    /// Returns a table of every read with both counts and its cycles.
    #[must_use]
    pub fn table(&self) -> Table {
        let row = |r: &WarpRead| {
            vec![
                r.name.to_owned(),
                r.different().to_string(),
                r.merged().to_string(),
                r.by_halves().to_string(),
                r.cycles.map_or_else(|| "not measured".into(), figures::number),
            ]
        };
        let headers = [
            "read of a warp",
            "different addresses",
            "wavefronts, merged across the warp",
            "wavefronts, merged among 16 lanes",
            "cycles, measured",
        ];
        table(&headers, self.reads.iter().map(row).collect())
    }

    /// Says which of the two counts agrees with the measurement, if they differ.
    #[must_use]
    pub fn sentence(&self) -> String {
        let telling = || self.reads.iter().filter(|r| r.merged() != r.by_halves());
        let measured: Vec<(f64, &WarpRead)> = telling().filter_map(|r| Some((r.cycles?, r))).collect();
        if measured.is_empty() {
            return on_the_gpu("How equal addresses are served");
        }
        // The nearer count has the smaller ratio.
        let nearer = |cycles: f64, r: &WarpRead| {
            let off = |count: u32| (cycles / f64::from(count)).ln().abs();
            off(r.merged()) <= off(r.by_halves())
        };
        let merged: Vec<&str> = measured.iter().filter(|(c, r)| nearer(*c, r)).map(|(_, r)| r.name).collect();
        let apart: Vec<&str> = measured.iter().filter(|(c, r)| !nearer(*c, r)).map(|(_, r)| r.name).collect();
        let list = |names: &[&str]| figures::listed(&names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>());
        let said = match (merged.is_empty(), apart.is_empty()) {
            (false, true) => {
                "equal 16-byte addresses are merged across the whole warp: the lesson's counts of rungs 06 to 08 are too high".to_owned()
            }
            (true, false) => {
                "equal 16-byte addresses are merged among the 16 lanes of half a warp, as the lesson's counts assume".to_owned()
            }
            _ => format!(
                "the count that merges across the whole warp fits {}; the other fits {}",
                list(&merged),
                list(&apart)
            ),
        };
        format!("Measured on {}: {said}.", self.device)
    }
}

/// Measures the rate of `mma.sync` in a type; [`mma_sync`] draws the conclusions.
///
/// # Errors
/// If the device reports an error.
pub fn mma_sync_ceiling(lab: &Lab, dtype: Dtype) -> Result<Option<ComputePeak>> {
    let Some(device) = lab.device().cuda() else { return Ok(None) };
    Ok(mma_sync_peak(device, lab.bench(), dtype)?)
}

/// Reads the hardware counters of the kernel that measures the ceiling of `wgmma` in a type. Its warps multiply tiles that are in shared memory already: they
/// load nothing in their loop and wait for nothing but their multiplications, so its largest stall reason is the one under which such a wait is counted. `None`
/// if the GPU, or the type, has no `wgmma`.
///
/// # Errors
/// If there is no GPU, or [`Lab::counters`] returns an error.
pub fn wgmma_counters(lab: &Lab, dtype: Dtype) -> Result<Option<HardwareCounters>> {
    let device = lab.device().cuda().ok_or(warpbook_device::Error::NeedsCuda("A reading of hardware counters"))?;
    let Some(rounds) = WgmmaRounds::new(device, dtype)? else { return Ok(None) };
    let stream = device.stream()?;
    lab.counters(|| Ok(rounds.launch(&stream)?)).map(Some)
}

/// Compares `mma.sync` with the ceiling of the type, and a rung with what `mma.sync` can do.
#[must_use]
pub fn mma_sync(run: &Run, problem: &Problem, rung: &str, ceiling: Option<&ComputePeak>) -> String {
    let Some(warps) = ceiling.map(ComputePeak::flops_per_s).filter(|f| *f > 0.0) else {
        return on_the_gpu("The ceiling of mma.sync");
    };
    let device = &run.environment.device.name;
    let of_ceiling = run.arithmetic(problem).map_or_else(String::new, |p| {
        format!(", {} of the ceiling of {}", figures::percent(warps / p.flops_per_s()), problem.dtype.label())
    });
    let rung = valid(run, rung, problem).and_then(|m| m.median_us()).map_or_else(
        || format!(" {} was not measured at {}.", title(run, rung), problem.label),
        |us| {
            let rate = problem.flops as f64 / us * 1e6;
            format!(" {} does {}, {} of that.", title(run, rung), figures::rate(rate), figures::percent(rate / warps))
        },
    );
    format!("On {device}, mma.sync on fragments in registers does {}{of_ceiling}.{rung}", figures::rate(warps))
}

/// Measures how long the blocks of these persistent rungs take to exchange their sums, and how much of that time shows in each rung's epoch.
///
/// # Errors
/// If the device reports an error.
pub fn price_of_the_exchange(lab: &Lab, run: &Run, problem: &Problem, rungs: &[&str]) -> Result<Vec<String>> {
    let Some(device) = lab.device().cuda() else { return Ok(vec![on_the_gpu("An exchange by itself")]) };
    let mut said: Vec<String> = Vec::new();
    let mut timed: Vec<(u32, f64)> = Vec::new();
    for id in rungs {
        let m = valid(run, id, problem);
        let blocks = m.and_then(|m| m.kernels.last()).and_then(|k| k.grid).map(|grid| grid[0]);
        let beyond = m.and_then(|m| Some(m.pass_us()? - epoch_bound(run, m)?.0));
        let (Some(blocks), Some(beyond)) = (blocks, beyond) else {
            said.push(format!("{} was not measured here at {}.", title(run, id), problem.label));
            continue;
        };
        let known = timed.iter().find(|(b, _)| *b == blocks).map(|(_, us)| *us);
        let alone = match known {
            Some(us) => us,
            None => {
                let us = exchange(device, lab.bench(), blocks)?.median_us();
                said.push(format!(
                    "On {}, an exchange among {blocks} blocks that do nothing else takes {}.",
                    device.info().name,
                    figures::time(us)
                ));
                timed.push((blocks, us));
                us
            }
        };
        said.push(exchange_shown(title(run, id), beyond, alone));
    }
    Ok(said)
}

/// Compares the part of an epoch's time that its bytes and operations do not explain with the time of an exchange alone, both in microseconds.
fn exchange_shown(name: &str, beyond: f64, alone: f64) -> String {
    let (shown, left) = (figures::time_difference(beyond), beyond - alone);
    if left < 0.0 {
        let hidden = figures::time(-left);
        return format!(
            "{name}: {shown} beyond its bytes and operations, so at least {hidden} of the exchange are hidden behind loads."
        );
    }
    let left = figures::time(left);
    format!("{name}: {shown} beyond its bytes and operations: the exchange, and {left} of other waiting.")
}

/// Rate at which L2 serves groups of blocks that read the same lines, by the size of a group.
#[derive(Debug, Clone, PartialEq)]
pub struct Together {
    device: String,
    /// Measured ceiling of L2 in bytes a second.
    ceiling: Option<f64>,
    /// Size of a group, and bytes a second that its blocks received.
    pub rates: Vec<(u32, f64)>,
}

/// Measures whether L2 answers requests for the same line together.
///
/// # Errors
/// If the device reports an error.
pub fn same_lines(lab: &Lab, peaks: &Peaks) -> Result<Together> {
    let ceiling = peaks.level(MemoryLevel::L2).map(|p| p.bytes_per_s());
    let mut all = Together { device: lab.device().info().name.clone(), ceiling, rates: Vec::new() };
    if let Some(device) = lab.device().cuda() {
        for group in [1, 2, 4, 8] {
            all.rates.push((group, read_together(device, lab.bench(), group)?));
        }
    }
    Ok(all)
}

impl Together {
    /// Returns a table of every size of a group with its rate.
    #[must_use]
    pub fn table(&self) -> Table {
        let first = self.rates.first().map(|r| r.1);
        let row = |(group, rate): &(u32, f64)| {
            vec![
                group.to_string(),
                figures::bandwidth(*rate),
                self.ceiling.map(|c| figures::percent(rate / c)).unwrap_or_default(),
                first.map(|f| figures::times(rate / f)).unwrap_or_default(),
            ]
        };
        let headers = [
            "blocks that read the same lines",
            "what they are given",
            "of L2's ceiling",
            "over blocks that read different lines",
        ];
        table(&headers, self.rates.iter().map(row).collect())
    }

    /// Returns a sentence on the rates.
    #[must_use]
    pub fn sentence(&self) -> String {
        let (Some(first), Some(best)) = (self.rates.first(), self.rates.iter().max_by(|a, b| a.1.total_cmp(&b.1)))
        else {
            return on_the_gpu("Whether L2 answers requests for the same line together");
        };
        match best.1 / first.1 {
            r if r > 1.1 => format!(
                "On {}, blocks that read the same lines in groups of {} are given {} what blocks that read different lines are: \
                 some of their requests are answered together, so a rung whose neighbours share tiles can be above L2's ceiling.",
                self.device,
                best.0,
                figures::times(r)
            ),
            _ => format!(
                "On {}, blocks that read the same lines are given no more than blocks that read different ones: that does not \
                 explain a rung above L2's ceiling.",
                self.device
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpbook_device::Choice;

    fn measured(cycles: impl Fn(&WarpRead) -> f64) -> WarpReads {
        let mut all = WarpReads { device: "a GPU".into(), reads: reads() };
        for read in &mut all.reads {
            read.cycles = Some(cycles(read));
        }
        all
    }

    #[test]
    fn both_counts_of_wavefronts_follow_from_the_addresses() {
        let all = reads();
        let check = |name: &str, different: usize, merged: u32, by_halves: u32| {
            let read = all.iter().find(|r| r.name == name).unwrap();
            assert_eq!((read.different(), read.merged(), read.by_halves()), (different, merged, by_halves), "{name}");
        };
        check("4 bytes a lane, neighbours", 32, 1, 1);
        check("4 bytes a lane, every fourth word", 32, 4, 4);
        check("4 bytes a lane, all the same", 1, 1, 1);
        check("16 bytes a lane, neighbours", 32, 4, 4);
        check("16 bytes a lane, all the same", 1, 1, 2);
        check("rung 06, a fragment of A", 2, 1, 2);
        check("rung 06, a fragment of B", 16, 2, 4);
        check("rung 07, a fragment of A", 8, 1, 2);
        check("rung 07, a fragment of B", 4, 1, 2);
        assert!(all.iter().all(|r| r.offsets.iter().all(|o| o + r.bytes <= warpbook_kernels::READ_SPAN)));
    }

    #[test]
    fn the_sentence_is_that_of_the_count_that_fits() {
        let whole = measured(|r| f64::from(r.merged()) * 1.05).sentence();
        assert!(
            whole.contains("merged across the whole warp: the lesson's counts of rungs 06 to 08 are too high"),
            "{whole}"
        );
        let parts = measured(|r| f64::from(r.by_halves()) * 1.05).sentence();
        assert!(parts.contains("half a warp, as the lesson's counts assume"), "{parts}");
        let mixed = measured(|r| if r.name.contains("07") { 1.0 } else { 4.0 }).sentence();
        assert!(mixed.contains("fits rung 07, a fragment of A; rung 07"), "{mixed}");
    }

    #[test]
    fn without_a_gpu_each_says_so() {
        let lab = Lab::on(Choice::Cpu).unwrap();
        let reads = shared_wavefronts(&lab).unwrap();
        assert!(reads.sentence().contains("needs a GPU") && reads.table().rows[0][4] == "not measured");
        let together = same_lines(&lab, &Peaks::default()).unwrap();
        assert!(together.sentence().contains("needs a GPU") && together.table().rows.is_empty());
        assert_eq!(mma_sync_ceiling(&lab, Dtype::Bf16).unwrap(), None);
        let said = wgmma_counters(&lab, Dtype::Bf16).unwrap_err().to_string();
        assert!(said.contains("hardware counters needs a CUDA device"), "{said}");
    }

    #[test]
    fn an_exchange_is_hidden_or_shown() {
        assert!(exchange_shown("A", 0.15, 1.4).contains("at least 1.25 µs of the exchange are hidden"));
        assert!(exchange_shown("A", 1.7, 1.4).contains("the exchange, and 300 ns of other waiting"));
    }

    #[test]
    fn rates_above_those_of_different_lines_say_that_requests_are_merged() {
        let with =
            |two: f64| Together { device: "a GPU".into(), ceiling: Some(9e12), rates: vec![(1, 9e12), (2, two)] };
        assert!(with(15e12).sentence().contains("groups of 2 are given 1.67×"), "{}", with(15e12).sentence());
        assert!(with(9.1e12).sentence().contains("no more than"));
        assert_eq!(with(18e12).table().rows[1][3], "2.00×");
    }
}
