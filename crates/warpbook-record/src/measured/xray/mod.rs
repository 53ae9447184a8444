//! X-rays: the phases of a kernel's warps on every SM, on one clock.

use crate::problem::by_id;
use crate::{Problem, Run, stats};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Names of the phases from which figures are derived; a kernel may have phases with other names.
pub mod phase {
    /// The time from a warp's first mark to the next one.
    pub const START: &str = "start";
    /// The warp starts to load a tile.
    pub const LOAD: &str = "load";
    /// The warp waits for data, or for room to store it.
    pub const WAIT: &str = "wait";
    /// The warp multiplies a tile.
    pub const MULTIPLY: &str = "multiply";
    /// The warp stores results.
    pub const STORE: &str = "store";
    /// The warp waits for other warps to arrive.
    pub const BARRIER: &str = "barrier";
    /// The warp computes with loaded data, in kernels that do not multiply tiles.
    pub const COMPUTE: &str = "compute";
    /// A period of time whose marks were not kept.
    pub const NOT_KEPT: &str = "not kept";

    /// Returns true for a phase of computation, as opposed to loads and waits.
    #[must_use]
    pub fn is_work(name: &str) -> bool {
        matches!(name, MULTIPLY | COMPUTE)
    }
}

/// One run of a rung whose kernels recorded their warps' phases. Times are in nanoseconds from the first mark.
///
/// Every SM has its own clock. Each clock was compared with the clock of a reference SM by messages there and back, and
/// the error is part of the record. Times on two SMs are comparable within the sum of their errors; times on the same
/// SM are exact.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Xray {
    /// Id of the recorded rung.
    pub rung: String,
    /// Problem that the rung solved, stored as its id.
    #[serde(with = "by_id")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub problem: Problem,
    /// Names of the phases; marks refer to them by index.
    pub phases: Vec<String>,
    /// The kernels that have marks.
    pub kernels: Vec<XrayKernel>,
    /// The kernels of the run without marks, each listed once: the name of the entry, and also the file if another
    /// kernel with the same entry ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unmarked_kernels: Vec<String>,
    /// The SMs of the device, with the errors of their clocks.
    pub sms: Vec<XraySm>,
    /// Blocks of each kernel's last launch, in the order in which they began.
    pub blocks: Vec<XrayBlock>,
    /// Clock rate of the SMs during the run in MHz.
    #[serde(with = "crate::format::real::one")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::format::real::Real"))]
    pub clock_mhz: f64,
    /// Times of a run with marks in microseconds.
    #[serde(with = "crate::format::real::many")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<crate::format::real::Real>"))]
    pub marked_us: Vec<f64>,
    /// Times of a run of the same kernels without marks in microseconds.
    #[serde(with = "crate::format::real::many")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<crate::format::real::Real>"))]
    pub unmarked_us: Vec<f64>,
}

/// A kernel of an [`Xray`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct XrayKernel {
    /// Name of the kernel's entry.
    pub entry: String,
    /// Path of the kernel's source below `kernels/`.
    pub file: String,
    /// Id of the kernel's tile.
    pub tile: String,
    /// Number of blocks in the launch.
    pub blocks: u64,
    /// Number of warps in a block.
    pub warps: u64,
}

/// An SM of an [`Xray`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct XraySm {
    /// Number of the SM on the device.
    pub sm: u64,
    /// Largest error of the SM's times relative to the reference SM in nanoseconds, in either direction; 0 for the
    /// reference SM.
    #[serde(with = "crate::format::real::one")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::format::real::Real"))]
    pub error_ns: f64,
}

/// A thread block of an [`Xray`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct XrayBlock {
    /// Index of the block's kernel in [`Xray::kernels`].
    pub kernel: u64,
    /// Number of the block in the grid.
    pub block: u64,
    /// Number of the SM that ran the block.
    pub sm: u64,
    /// Time of the first mark of the block's warps in nanoseconds.
    pub start_ns: u64,
    /// Time of the last mark of the block's warps in nanoseconds.
    pub end_ns: u64,
    /// Warps with kept marks; empty if only the block's start and end are kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warps: Vec<XrayWarp>,
}

/// A warp of an [`XrayBlock`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct XrayWarp {
    /// Number of the warp in the block.
    pub warp: u64,
    /// Phases in order, each with its duration, written as `phase:nanoseconds` separated by spaces. The first phase
    /// begins at `start_ns`.
    #[serde(with = "as_text")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub phases: Vec<(u64, u64)>,
    /// Start of the first phase in nanoseconds.
    pub start_ns: u64,
    /// Number of warps in the block with the same phases, including this warp. The marks of the other warps were not
    /// kept.
    #[serde(default = "itself", skip_serializing_if = "is_itself")]
    pub stands_for: u64,
}

/// The role of a warp in its kernel, derived from its phases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// The warp computes, in a kernel where other warps load.
    Consumer,
    /// The warp loads data for others and computes nothing.
    Producer,
    /// The warp neither loads nor computes, although the kernel has producers and consumers.
    Other,
    /// The kernel has no roles.
    Every,
}

impl Role {
    /// Returns the plural noun for warps of this role, such as "consumers".
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Consumer => "consumers",
            Self::Producer => "producers",
            Self::Other => "other warps",
            Self::Every => "all warps",
        }
    }
}

/// A phase of a warp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PhaseSpan<'x> {
    /// Name of the phase.
    pub phase: &'x str,
    /// Start in nanoseconds.
    pub from: u64,
    /// End in nanoseconds.
    pub to: u64,
}

/// The time that a kernel's warps of one role spent in one phase. A warp counts once for each warp with the same phases
/// that it represents.
#[derive(Debug, Clone, PartialEq)]
pub struct PhaseTime {
    /// Role of the warps.
    pub role: Role,
    /// Name of the phase.
    pub phase: String,
    /// Number of times that warps entered the phase.
    pub count: usize,
    /// Share of this phase in the known time of the role's warps.
    pub share: f64,
    /// Share of this phase in the known time of all warps of the kernel.
    pub share_of_all: f64,
    /// Median duration in nanoseconds.
    pub median_ns: f64,
    /// Longest duration in nanoseconds.
    pub longest_ns: u64,
}

/// The end of a kernel, when some SMs have no blocks left.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tail {
    /// Time in nanoseconds when the first SM runs out of blocks.
    pub from_ns: u64,
    /// Time in nanoseconds when the last SM runs out of blocks.
    pub to_ns: u64,
    /// Share of the SMs' time between the kernel's start and end that is lost in the tail.
    pub lost: f64,
    /// Number of SMs that had no block at all.
    pub unused: usize,
}

/// The time between the first and the last warp's arrival at barriers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// Number of barriers that were matched.
    pub count: usize,
    /// Median time in nanoseconds from the arrival of the first warp to the arrival of the last.
    pub median_ns: f64,
    /// Longest time in nanoseconds from the arrival of the first warp to the arrival of the last.
    pub longest_ns: u64,
}

/// The lead of loads over multiplications.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lead {
    /// Number of multiplications matched with the load of their tile.
    pub count: usize,
    /// Median time in nanoseconds from a tile's load to its multiplication.
    pub median_ns: f64,
    /// Median number of tiles that are loaded or in flight but not yet multiplied when a multiplication begins,
    /// including the tile of that multiplication.
    pub median_tiles: f64,
}

impl XrayWarp {
    /// Returns the phases with names and times; phases without a name in the record are left out.
    pub fn spans<'x>(&'x self, names: &'x [String]) -> impl Iterator<Item = PhaseSpan<'x>> {
        let mut at = self.start_ns;
        self.phases.iter().filter_map(move |(phase, ns)| {
            let from = at;
            at = at.saturating_add(*ns);
            let name = usize::try_from(*phase).ok().and_then(|p| names.get(p))?;
            Some(PhaseSpan { phase: name, from, to: at })
        })
    }

    /// Returns the phases before the first gap in the marks; only these can be counted.
    fn counted<'x>(&'x self, names: &'x [String]) -> impl Iterator<Item = PhaseSpan<'x>> {
        self.spans(names).take_while(|s| s.phase != phase::NOT_KEPT)
    }

    fn has(&self, names: &[String], phase: &str) -> bool {
        self.spans(names).any(|s| s.phase == phase)
    }
}

impl Xray {
    /// Returns the time of the last warp's last mark in nanoseconds.
    #[must_use]
    pub fn end_ns(&self) -> u64 {
        self.blocks.iter().map(|b| b.end_ns).max().unwrap_or(0)
    }

    /// Returns how much marks slow down a run: the ratio of the median time with marks to the median time without.
    #[must_use]
    pub fn perturbation(&self) -> Option<f64> {
        let [marked, unmarked] = [&self.marked_us, &self.unmarked_us].map(|s| stats::median(s).filter(|us| *us > 0.0));
        Some(marked? / unmarked?)
    }

    /// Names the kernels of the run without marks in a sentence; `None` if all kernels have marks.
    #[must_use]
    pub fn unmarked_in_words(&self) -> Option<String> {
        let (last, others) = self.unmarked_kernels.split_last()?;
        Some(match others {
            [] => format!("1 kernel of the run has no marks and is not shown: {last}."),
            _ => format!(
                "{} kernels of the run have no marks and are not shown: {} and {last}.",
                others.len() + 1,
                others.join(", ")
            ),
        })
    }

    /// States in a sentence for each kernel the share of its warps' time whose marks were not kept; `None` if all marks
    /// were kept.
    #[must_use]
    pub fn not_kept_in_words(&self) -> Option<String> {
        let whole = |k: usize| (self.not_kept(k) * 100.0).round();
        let some = |(k, kernel): (usize, &XrayKernel)| {
            let percent = whole(k);
            let amount = if percent < 1.0 { "less than 1 %".into() } else { format!("{percent} %") };
            (self.not_kept(k) > 0.0).then(|| format!("{amount} of the time of {}'s warps", kernel.entry))
        };
        let all: Vec<String> = self.kernels.iter().enumerate().filter_map(some).collect();
        let (last, others) = all.split_last()?;
        let and = if others.is_empty() { "" } else { " and " };
        Some(format!("For {}{and}{last} no marks were kept; shares are of the rest.", others.join(", ")))
    }

    /// Returns the largest error of an SM that had a block, in nanoseconds.
    #[must_use]
    pub fn error_ns(&self) -> f64 {
        let used = |sm: u64| self.blocks.iter().any(|b| b.sm == sm);
        self.sms.iter().filter(|s| used(s.sm)).map(|s| s.error_ns).fold(0.0, f64::max)
    }

    /// Returns the blocks of a kernel, by its index.
    pub fn blocks_of(&self, kernel: usize) -> impl Iterator<Item = &XrayBlock> {
        self.blocks.iter().filter(move |b| usize::try_from(b.kernel).is_ok_and(|k| k == kernel))
    }

    /// Returns the time of a kernel's warps, grouped by role and then by phase in the order of [`Xray::phases`]. Time
    /// whose marks were not kept belongs to no phase; see [`Xray::not_kept`].
    #[must_use]
    pub fn phase_times(&self, kernel: usize) -> Vec<PhaseTime> {
        let specialised = self.is_specialised(kernel);
        // Durations for each role and phase, each with the number of warps that it represents.
        let mut durations: BTreeMap<(Role, usize), Vec<(u64, u64)>> = BTreeMap::new();
        for warp in self.blocks_of(kernel).flat_map(|b| &b.warps) {
            let role = if specialised { self.role(warp) } else { Role::Every };
            for (phase, ns) in &warp.phases {
                let place = usize::try_from(*phase).ok().filter(|p| self.is_known(*p));
                if let Some(place) = place.filter(|_| warp.stands_for > 0) {
                    durations.entry((role, place)).or_default().push((*ns, warp.stands_for));
                }
            }
        }
        let sum = |of: &[(u64, u64)]| of.iter().map(|(ns, n)| *ns as f64 * *n as f64).sum::<f64>();
        let sums: Vec<(Role, f64)> = durations.iter().map(|((role, _), of)| (*role, sum(of))).collect();
        let all: f64 = sums.iter().map(|(_, ns)| ns).sum();
        let of_role = |role| sums.iter().filter(|(r, _)| *r == role).map(|(_, ns)| ns).sum::<f64>();
        let time = |((role, place), of): (&(Role, usize), &mut Vec<(u64, u64)>)| PhaseTime {
            role: *role,
            phase: self.phases[*place].clone(),
            count: of.iter().fold(0u64, |n, (_, of)| n.saturating_add(*of)).try_into().unwrap_or(usize::MAX),
            share: share(sum(of), of_role(*role)),
            share_of_all: share(sum(of), all),
            median_ns: weighted_median(of),
            longest_ns: of.iter().map(|(ns, _)| *ns).max().unwrap_or(0),
        };
        durations.iter_mut().map(time).collect()
    }

    /// Returns the share of the warps' time in a kernel whose marks were not kept.
    #[must_use]
    pub fn not_kept(&self, kernel: usize) -> f64 {
        let (mut hidden, mut all) = (0.0, 0.0);
        for warp in self.blocks_of(kernel).flat_map(|b| &b.warps) {
            for (phase, ns) in &warp.phases {
                let ns = *ns as f64 * warp.stands_for as f64;
                let is_known = usize::try_from(*phase).is_ok_and(|p| self.is_known(p));
                hidden += if is_known { 0.0 } else { ns };
                all += ns;
            }
        }
        share(hidden, all)
    }

    /// Returns true if an index of [`Xray::phases`] is a known phase, not a gap in the marks.
    fn is_known(&self, place: usize) -> bool {
        self.phases.get(place).is_some_and(|name| name != phase::NOT_KEPT)
    }

    /// Returns true if some warps of a kernel load data for other warps to compute with.
    fn is_specialised(&self, kernel: usize) -> bool {
        let (mut producer, mut consumer) = (false, false);
        for warp in self.blocks_of(kernel).flat_map(|b| &b.warps) {
            match self.role(warp) {
                Role::Producer => producer = true,
                Role::Consumer => consumer |= !warp.has(&self.phases, phase::LOAD),
                Role::Other | Role::Every => {}
            }
        }
        producer && consumer
    }

    /// Returns the role of a warp in a kernel with roles.
    fn role(&self, warp: &XrayWarp) -> Role {
        let (mut computes, mut loads) = (false, false);
        for span in warp.spans(&self.phases) {
            computes |= phase::is_work(span.phase);
            loads |= span.phase == phase::LOAD;
        }
        match (computes, loads) {
            (true, _) => Role::Consumer,
            (false, true) => Role::Producer,
            (false, false) => Role::Other,
        }
    }

    /// Returns the tail of a kernel's last wave; `None` if it has no blocks.
    #[must_use]
    pub fn tail(&self, kernel: usize) -> Option<Tail> {
        let mut ends: Vec<(u64, u64)> = Vec::new();
        let mut start = u64::MAX;
        for block in self.blocks_of(kernel) {
            start = start.min(block.start_ns);
            match ends.iter_mut().find(|(sm, _)| *sm == block.sm) {
                Some((_, end)) => *end = (*end).max(block.end_ns),
                None => ends.push((block.sm, block.end_ns)),
            }
        }
        let from_ns = ends.iter().map(|(_, end)| *end).min()?;
        let to_ns = ends.iter().map(|(_, end)| *end).max()?;
        let lost: f64 = ends.iter().map(|(_, end)| (to_ns - end) as f64).sum();
        let whole = to_ns.saturating_sub(start) as f64 * ends.len() as f64;
        Some(Tail {
            from_ns,
            to_ns,
            lost: if whole > 0.0 { lost / whole } else { 0.0 },
            unused: self.sms.iter().filter(|s| ends.iter().all(|(sm, _)| *sm != s.sm)).count(),
        })
    }

    /// Returns how far apart the warps of a block arrive at its barriers; the k-th barriers of all warps are matched.
    /// `None` if no block has two warps with barriers.
    #[must_use]
    pub fn spread_in_blocks(&self, kernel: usize) -> Option<Spread> {
        let arrivals = self.blocks_of(kernel).map(|b| self.arrivals(b)).filter(|warps| warps.len() > 1);
        spread(&arrivals.flat_map(|warps| apart(&warps)).collect::<Vec<_>>())
    }

    /// Returns how far apart the blocks' last warps arrive at the k-th barrier, if all blocks of the kernel ran at
    /// once, so that the barrier may span the grid; otherwise `None`.
    #[must_use]
    pub fn spread_over_blocks(&self, kernel: usize) -> Option<Spread> {
        let last_start = self.blocks_of(kernel).map(|b| b.start_ns).max()?;
        let first_end = self.blocks_of(kernel).map(|b| b.end_ns).min()?;
        if first_end <= last_start {
            return None;
        }
        let last = |warps: Vec<Vec<u64>>| -> Vec<u64> {
            let shared = warps.iter().map(Vec::len).min().unwrap_or(0);
            (0..shared).map(|k| warps.iter().map(|w| w[k]).max().unwrap_or(0)).collect()
        };
        let blocks: Vec<Vec<u64>> = self.blocks_of(kernel).map(|b| last(self.arrivals(b))).collect();
        if blocks.len() < 2 || blocks.iter().any(Vec::is_empty) {
            return None;
        }
        spread(&apart(&blocks))
    }

    /// Returns how far loads run ahead of multiplications. In each block, the k-th load of the first loading warp is
    /// matched with each warp's k-th multiplication after a wait. Returns `None` if no kept warp multiplies tiles that
    /// another warp loads.
    #[must_use]
    pub fn lead(&self, kernel: usize) -> Option<Lead> {
        let (mut ahead, mut tiles) = (Vec::new(), Vec::new());
        for block in self.blocks_of(kernel) {
            let Some(loader) = block.warps.iter().find(|w| w.has(&self.phases, phase::LOAD)) else { continue };
            let starts = |s: PhaseSpan<'_>| (s.phase == phase::LOAD).then_some(s.from);
            let loads: Vec<u64> = loader.counted(&self.phases).filter_map(starts).collect();
            for warp in &block.warps {
                let spans: Vec<PhaseSpan<'_>> = warp.counted(&self.phases).collect();
                let waited = |s: &PhaseSpan<'_>| matches!(s.phase, phase::WAIT | phase::BARRIER);
                let begins = spans.windows(2).filter(|w| w[1].phase == phase::MULTIPLY && waited(&w[0]));
                for (k, begin) in begins.map(|w| w[1].from).enumerate() {
                    let Some(load) = loads.get(k).filter(|load| **load <= begin) else { break };
                    ahead.push(begin - load);
                    tiles.push((loads.partition_point(|l| *l <= begin) - k) as u64);
                }
            }
        }
        let count = ahead.len();
        (count > 0).then(|| Lead { count, median_ns: median(&ahead), median_tiles: median(&tiles) })
    }

    /// Returns the arrivals of each warp of a block at its barriers; warps without barriers are left out.
    fn arrivals(&self, block: &XrayBlock) -> Vec<Vec<u64>> {
        let arrivals_of = |w: &XrayWarp| -> Vec<u64> {
            w.counted(&self.phases).filter(|s| s.phase == phase::BARRIER).map(|s| s.from).collect()
        };
        block.warps.iter().map(arrivals_of).filter(|all| !all.is_empty()).collect()
    }
}

impl Run {
    /// Returns the X-ray of a rung at a problem.
    #[must_use]
    pub fn xray(&self, rung: &str, problem: &Problem) -> Option<&Xray> {
        self.xrays.iter().find(|x| x.rung == rung && x.problem == *problem)
    }
}

/// Returns for each k the time from the earliest to the latest k-th entry of the lists, as long as all lists have a
/// k-th entry.
fn apart(lists: &[Vec<u64>]) -> Vec<u64> {
    let shared = lists.iter().map(Vec::len).min().unwrap_or(0);
    let spread_at = |k: usize| {
        let times = lists.iter().map(|l| l[k]);
        times.clone().max().unwrap_or(0) - times.min().unwrap_or(0)
    };
    (0..shared).map(spread_at).collect()
}

fn spread(apart: &[u64]) -> Option<Spread> {
    let longest_ns = apart.iter().copied().max()?;
    Some(Spread { count: apart.len(), median_ns: median(apart), longest_ns })
}

fn itself() -> u64 {
    1
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_itself(stands_for: &u64) -> bool {
    *stands_for == itself()
}

fn share(part: f64, of: f64) -> f64 {
    if of > 0.0 { part / of } else { 0.0 }
}

/// Returns the median of values with counts; sorts the values.
fn weighted_median(of: &mut [(u64, u64)]) -> f64 {
    of.sort_unstable();
    let all: u128 = of.iter().map(|(_, n)| u128::from(*n)).sum();
    let at = |place: u128| {
        let mut before = 0;
        let found = of.iter().find(|(_, n)| {
            before += u128::from(*n);
            place < before
        });
        found.map_or(0.0, |(value, _)| *value as f64)
    };
    f64::midpoint(at(all.saturating_sub(1) / 2), at(all / 2))
}

fn median(of: &[u64]) -> f64 {
    let values: Vec<f64> = of.iter().map(|v| *v as f64).collect();
    stats::median(&values).unwrap_or(0.0)
}

/// Writes phases as text, since a list of numbers would take one line each in pretty JSON.
mod as_text {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};
    use std::fmt::Write;

    pub(crate) fn serialize<S: Serializer>(phases: &[(u64, u64)], s: S) -> Result<S::Ok, S::Error> {
        let mut text = String::new();
        for (i, (phase, ns)) in phases.iter().enumerate() {
            let space = if i > 0 { " " } else { "" };
            let _ = write!(text, "{space}{phase}:{ns}");
        }
        s.serialize_str(&text)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<(u64, u64)>, D::Error> {
        let text = String::deserialize(d)?;
        let one = |word: &str| -> Option<(u64, u64)> {
            let (phase, ns) = word.split_once(':')?;
            Some((phase.parse().ok()?, ns.parse().ok()?))
        };
        let words = text.split(' ').filter(|w| !w.is_empty());
        words.map(|w| one(w).ok_or_else(|| D::Error::custom("phases are written as phase:nanoseconds"))).collect()
    }
}

#[cfg(test)]
mod tests;
