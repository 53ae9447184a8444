//! The optimisation guide: pairs of a slow and a fast way to do the same work, each a small experiment.

mod expression;
mod launch;
mod made;
mod over_time;
mod pair;
mod pairs;
mod prepared;

pub use expression::Expression;
pub use pairs::PAIRS;

use crate::builders::selects;
use over_time::{OverTime, Shown};
use pair::{Half, PairWork};
use warpbook_charts::words as figures;
use warpbook_lab::activity::Timelines;
use warpbook_lab::experiment::Prepared;
use warpbook_lab::settings::{self, Configurable, Preset, Selection, Setting};
use warpbook_lab::{Error, Event, Experiment, Lab, Plan, Result};
use warpbook_record::{
    Baseline, ChartKind, Column, Descriptor, Dtype, Inputs, KernelSpec, Problem, Quantity, Run, Rung, SweepAxis,
    SweepPoint, count, nearest,
};

/// A pair of the guide: one result, computed in a slow and in a fast way.
pub struct Pair {
    /// Name on the command line.
    pub name: &'static str,
    /// Name of the pair in records.
    pub record: &'static str,
    /// Title in a few words, for headings.
    pub title: &'static str,
    /// Summary of the comparison in one sentence.
    pub about: &'static str,
    /// Reason why one of the ways is faster, in a sentence or two.
    pub reason: &'static str,
    /// Expected change of the ratio on a GPU with fewer SMs and less bandwidth, with the reason; this is reasoning, not
    /// a measurement.
    pub on_a_smaller_gpu: &'static str,
    /// Unit of the sizes, such as "kinds" in "32 kinds of elements".
    axis: &'static str,
    headline: Quantity,
    /// Sizes of the full sweep, sizes of the quick suite, and the size that charts show first.
    sizes: &'static [u64],
    quick: &'static [u64],
    shown: u64,
    /// Returns the work at a size; it is smaller without a GPU.
    work: fn(size: u64, quick: bool) -> PairWork,
    /// Generates the input of a size.
    input: fn(work: &PairWork) -> Vec<f32>,
    /// Computes the expected output in f64.
    want: fn(x: &[f32], work: &PairWork, size: u64) -> Vec<f64>,
    /// Tolerance of results, relative to an element or to 1; 0 if both halves are exact.
    tolerance: f64,
    /// Ids of the slow and the fast way; the page shows the ratio of their times.
    pub compared: [&'static str; 2],
    /// Hardware counters that show the reason, named by their column in [`counters_of`](warpbook_charts::counters_of);
    /// empty if the reason lies outside the kernels.
    pub counters: &'static [&'static str],
    /// Function that records both ways over time, if a recording shows the reason.
    over_time: Option<OverTime>,
    halves: &'static [Half],
}

impl std::fmt::Debug for Pair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pair({})", self.name)
    }
}

impl Pair {
    /// Returns the pair with this name.
    ///
    /// # Errors
    /// If there is no such pair; the error lists the most similar names.
    pub fn named(name: &str) -> Result<&'static Self, String> {
        PAIRS.iter().copied().find(|pair| pair.name == name.trim()).ok_or_else(|| {
            let near = nearest(name, PAIRS.iter().map(|p| p.name)).join(", ");
            format!("there is no pair `{name}`. The nearest are {near}; `warpbook run guide --help` lists all")
        })
    }

    /// Returns the pair whose records have this name.
    pub fn of_record(experiment: &str) -> Option<&'static Self> {
        PAIRS.iter().copied().find(|pair| pair.record == experiment)
    }
}

/// The guide experiment with its settings: one pair, or all pairs in sequence.
#[derive(Debug, Clone)]
pub struct Guide {
    pair: Option<&'static Pair>,
    /// Sizes of the sweep; `None` for the full sweep.
    sizes: Option<Vec<u64>>,
    quick: bool,
    selection: Selection,
}

selects!(Guide);

impl Guide {
    /// Creates the experiment of one pair; see [`PAIRS`].
    ///
    /// # Errors
    /// If there is no pair with this name.
    pub fn pair(name: &str) -> Result<Self> {
        Ok(Self { pair: Some(Pair::named(name).map_err(Error::Setting)?), ..Self::all() })
    }

    /// Selects all pairs; [`Configurable::each`] then returns them one by one.
    #[must_use]
    pub fn all() -> Self {
        Self { pair: None, sizes: None, quick: false, selection: Selection::default() }
    }

    /// Reduces the work and the sizes, for a machine without a GPU.
    #[must_use]
    pub fn quick(mut self) -> Self {
        self.quick = true;
        self
    }

    /// Sets the sizes of the sweep, which must be sizes of the pair.
    #[must_use]
    pub fn sizes(mut self, sizes: impl IntoIterator<Item = u64>) -> Self {
        self.sizes = Some(sizes.into_iter().collect());
        self
    }

    fn all_rungs(&self) -> Vec<Rung> {
        self.pair.map(|pair| pair.halves.iter().map(Half::rung).collect()).unwrap_or_default()
    }

    fn swept(&self) -> Vec<u64> {
        let Some(pair) = self.pair else { return Vec::new() };
        let all = if self.quick { pair.quick } else { pair.sizes };
        self.sizes.clone().unwrap_or_else(|| all.to_vec())
    }

    fn problem(&self, pair: &Pair, size: u64) -> Problem {
        let work = (pair.work)(size, self.quick);
        let sizes = vec![count("size", size, pair.axis), count("n", work.n, "elements")];
        Problem::new(sized(size, pair.axis), size.to_string(), sizes, Dtype::F32).with(|p| {
            p.id = format!("{} {}", pair.name, p.id);
            (p.flops, p.bytes, p.written_bytes) = (work.flops, work.bytes, work.written_bytes);
            p.working_set_bytes = work.array_bytes;
            p.sweep = Some(SweepPoint { size, line: pair.title.into() });
        })
    }

    /// Returns one problem for each size of the pair.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        let problems_of = |pair| self.swept().into_iter().map(|size| self.problem(pair, size)).collect();
        self.pair.map(problems_of).unwrap_or_default()
    }

    fn main_problem(&self) -> Option<Problem> {
        let (pair, sizes) = (self.pair?, self.swept());
        let shown = sizes.iter().find(|s| **s == pair.shown).or(sizes.last())?;
        Some(self.problem(pair, *shown))
    }

    fn descriptor(pair: &Pair) -> Descriptor {
        use Column::{Check, Mad, Median, OfBound, PeakMemory, SpeedUp};
        let headline = pair.headline;
        let mut quantities = vec![headline, Quantity::Time, Quantity::SpeedUp, Quantity::Bandwidth];
        quantities.dedup();
        // Memory is counted only for halves that allocate memory themselves; the others use just the pair's arrays.
        let counts_memory = pair.halves.iter().any(Half::counts_memory);
        let columns = if counts_memory {
            vec![Median, Mad, SpeedUp, Column::Throughput, PeakMemory, Check]
        } else {
            vec![Median, Mad, SpeedUp, Column::Bandwidth, OfBound, Check]
        };
        // Copies cross the link to the host, whose ceiling is not measured.
        let only_copies = pair.halves.iter().map(Half::rung).all(|r| r.is_driver() || r.is_cpu());
        let levels = if only_copies { Vec::new() } else { Descriptor::default().levels };
        Descriptor {
            headline,
            levels,
            quantities,
            // The baseline is named explicitly, since after a merge the first rung may belong to another framework.
            baseline: pair.halves.first().map_or(Baseline::FirstValid, |h| Baseline::Rung(h.id.into())),
            axis: SweepAxis { caption: pair.axis.into(), unit: String::new(), doubling: true },
            columns,
            charts: vec![ChartKind::Ladder, ChartKind::Sweep, ChartKind::Timeline],
            compared: pair.compared.map(Into::into).to_vec(),
            reason: pair.reason.into(),
            ..Descriptor::default()
        }
    }

    /// Returns the pair, or an error if there is none or a setting is invalid.
    fn validated(&self) -> Result<&'static Pair> {
        let Some(pair) = self.pair else {
            let names: Vec<&str> = PAIRS.iter().map(|p| p.name).collect();
            return Err(Error::Setting(format!("Name a pair of the guide: {}.", names.join(", "))));
        };
        for size in self.swept() {
            if !pair.sizes.contains(&size) && !pair.quick.contains(&size) {
                let sizes: Vec<String> = pair.sizes.iter().map(u64::to_string).collect();
                return Err(Error::Setting(format!(
                    "The pair {} has no size {size}. Choose from {}.",
                    pair.name,
                    sizes.join(", ")
                )));
            }
        }
        self.selection.validate(&self.all_rungs())?;
        Ok(pair)
    }
}

/// Describes a size, given the name of the axis in the plural, such as "4 warps per SM" and "1 warp per SM".
fn sized(size: u64, axis: &str) -> String {
    let one = |noun: &str| {
        let (first, rest) = noun.split_at(noun.find(' ').unwrap_or(noun.len()));
        format!("{}{rest}", first.strip_suffix('s').unwrap_or(first))
    };
    match size {
        1 => format!("1 {}", axis.split(" and ").map(one).collect::<Vec<_>>().join(" and ")),
        _ => format!("{size} {axis}"),
    }
}

/// Returns the half of the pair that a rung runs.
fn half_of<'p>(pair: &'p Pair, rung: &Rung) -> Option<&'p Half> {
    // A learner's kernel is launched like the rung that it replaces.
    let id = rung.variant_of.as_ref().unwrap_or(&rung.id);
    pair.halves.iter().find(|h| h.id == *id)
}

impl Experiment for Guide {
    fn plan(&self, _: Option<&Lab>) -> Result<Plan> {
        let pair = self.validated()?;
        // Another reason not to count: a pair without counters may make thousands of launches, too many for CUPTI's
        // profiler.
        let uncounted = "The reason of this pair is not inside a kernel: no hardware counters were read.";
        Ok(Plan {
            name: pair.record.into(),
            title: pair.title.into(),
            descriptor: Self::descriptor(pair),
            inputs: Inputs::of_all("numbers that follow from an element's place, the same on every device"),
            main_problem: self.main_problem(),
            uncounted: pair.counters.is_empty().then(|| uncounted.into()),
            ..settings::plan(self, self.problems(), self.selection.select(self.all_rungs()))
        })
    }

    fn obstacle(&self, _lab: &Lab, rung: &Rung, problem: &Problem, _so_far: &Run) -> Option<String> {
        let (half, work) = (half_of(self.pair?, rung)?, (self.pair?.work)(problem.size(), self.quick));
        if problem.size() > half.most {
            return Some(format!("takes sizes up to {}", half.most));
        }
        let is_long = rung.is_cpu() && work.bytes.max(work.flops / 4) > 1 << 28;
        is_long.then(|| "too much work for the CPU's half at this size".into())
    }

    fn for_emulator(&self) -> Option<Box<dyn Experiment>> {
        // Of the sizes with the least work, use the middle one: if the size is a stride or similar, the smallest shows
        // nothing and the largest takes long.
        let pair = self.pair?;
        let bytes = |size: &u64| (pair.work)(*size, true).bytes;
        let least = pair.quick.iter().map(bytes).min()?;
        let sizes: Vec<u64> = pair.quick.iter().copied().filter(|size| bytes(size) == least).collect();
        Some(Box::new(self.clone().quick().sizes([sizes[sizes.len() / 2]])))
    }

    fn compiled(&self, _: &Lab, rung: &Rung, problem: &Problem) -> Option<KernelSpec> {
        let spec = rung.kernels().first()?;
        let tile = half_of(self.pair?, rung)?.tile(spec, problem.size())?.clone();
        Some(KernelSpec { tiles: vec![tile], ..spec.clone() })
    }

    fn activity(&self, lab: &Lab, measured: &Run) -> Result<Timelines> {
        let recorded = self.pair.and_then(|pair| Some((pair, pair.over_time?)));
        let (Some((pair, over_time)), Some(device)) = (recorded, lab.device().cuda()) else {
            return Ok(Timelines::default());
        };
        let Some(problem) = self.main_problem().filter(|p| measured.problems.contains(p)) else {
            return Ok(Timelines::default());
        };
        lab.tell(&Event::Preparing("recording what the GPU does over time"));
        let work = (pair.work)(problem.size(), self.quick);
        over_time(&Shown { lab, device, pair, problem: &problem, work, quick: self.quick, measured })
    }

    fn prepare<'a>(&'a self, lab: &'a Lab, problem: &Problem) -> Result<Box<dyn Prepared + 'a>> {
        let pair = self.pair.ok_or_else(|| Error::Setting("Name a pair of the guide.".into()))?;
        Ok(Box::new(prepared::Arrays::new(lab, pair, (pair.work)(problem.size(), self.quick), problem.size())?))
    }

    /// Returns sentences about the ratio and the reason, at the size that charts show.
    fn notes(&self, measured: &Run) -> Vec<String> {
        let Some(problem) = self.main_problem() else { return Vec::new() };
        let rungs = measured.slow_and_fast(&problem).map(|(slow, fast)| (&*slow.rung, &*fast.rung));
        rungs.map(|rungs| said(measured, &problem, rungs)).into_iter().collect()
    }
}

/// Returns a sentence that compares two rungs of a pair at a size, and the pair's reason.
pub fn said(run: &Run, problem: &Problem, (slow, fast): (&str, &str)) -> String {
    let valid = |id: &str| run.measurement(id, problem).filter(|m| m.is_valid());
    let titled = |id: &str| run.rung(id).map_or(id, |rung| &*rung.title).to_owned();
    let mut said = Vec::new();
    if let Some((slow, fast)) = valid(slow).zip(valid(fast))
        && let Some(ratio) = slow.median_us().zip(fast.median_us()).map(|(slow, fast)| slow / fast)
    {
        let names = [titled(&fast.rung), titled(&slow.rung)];
        said.push(format!(
            "With {}, “{}” is {} as fast as “{}”.",
            problem.label,
            names[0],
            figures::times(ratio),
            names[1]
        ));
        if let Some((a, b)) = fast.peak_bytes.zip(slow.peak_bytes).filter(|(a, b)| a != b) {
            let [a, b] = [a, b].map(figures::bytes);
            said.push(format!("“{}” holds {a} of the device's memory, and “{}” {b}.", names[0], names[1]));
        }
    }
    said.extend(Pair::of_record(&run.experiment).map(|pair| pair.reason.to_owned()));
    said.join(" ")
}

impl Configurable for Guide {
    const NAME: &'static str = "guide";
    const ABOUT: &'static str = "The optimisation guide: pairs of a slow way and a fast one, a record for each";
    const DETAILS: &'static str = "\
Each pair does the same work in a slow way and in a fast one, checks that both give the same result, and times them over a sweep. \
Without --pair all of them run, one after another, each into its own record. The pairs: made-on-device, coalescing, \
bank-conflicts, divergence, reduction, vector-loads, latency, memory-latency, gather, allocation, fusion, copy-back, batches, pinned, \
occupancy, jit-expression, small-network, loader, precision, layout, power, checkpointing, accumulation.";
    const EXAMPLES: &'static str = "\
  warpbook run guide --pair coalescing
  warpbook run guide --pair pinned --out pinned.json
  warpbook run guide --quick
  warpbook run guide";

    fn preset(preset: Preset) -> Self {
        if preset == Preset::Quick { Self::all().quick() } else { Self::all() }
    }

    fn each(self) -> Vec<Box<dyn Experiment>> {
        if self.pair.is_some() {
            return vec![Box::new(self)];
        }
        PAIRS.iter().map(|pair| Box::new(Self { pair: Some(*pair), ..self.clone() }) as _).collect()
    }

    fn offered() -> Vec<Setting<Self>> {
        let [rungs, _] = Selection::settings();
        vec![
            Setting {
                name: "pair",
                value: Some("NAME"),
                help: "One pair: made-on-device, coalescing, bank-conflicts, divergence, reduction, vector-loads, latency, \
                       memory-latency, gather, allocation, fusion, copy-back, batches, pinned, occupancy, jit-expression, \
                       small-network, loader, precision, layout, power, checkpointing, accumulation. [default: all, each into its own record]",
                set: |e, text| Ok(Self { pair: Some(Pair::named(text)?), ..e }),
                get: |e| e.pair.map(|p| p.name.to_owned()),
            },
            Setting {
                name: "size",
                value: Some("N[,N..]"),
                help: "Sizes of the sweep that the pair offers; several with commas. [default: all]",
                set: |e, text| Ok(e.sizes(settings::list(text, settings::parse_count)?)),
                get: |e| e.sizes.as_ref().map(|s| settings::joined(s.iter().map(u64::to_string))),
            },
            Setting {
                name: "small",
                value: None,
                help: "Do little work and few sizes, as with --quick.",
                set: |e, _| Ok(e.quick()),
                get: |e| e.quick.then(String::new),
            },
            rungs,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speed_ups_are_relative_to_a_pair_s_own_first_way() {
        for pair in PAIRS {
            let guide = Guide { pair: Some(*pair), ..Guide::all() };
            let first = guide.all_rungs()[0].id.to_string();
            assert_eq!(Guide::descriptor(pair).baseline, Baseline::Rung(first), "{pair:?}");
        }
    }

    #[test]
    fn one_of_an_axis_is_in_the_singular() {
        let labels = [(1, "warps per SM"), (1, "rows and columns"), (1, "KiB"), (2, "kinds of elements")];
        let said = labels.map(|(size, axis)| sized(size, axis));
        assert_eq!(said, ["1 warp per SM", "1 row and column", "1 KiB", "2 kinds of elements"]);
        let problems = Guide::pair("gather").unwrap().problems();
        assert_eq!((problems[0].size(), problems[0].label.as_str()), (1, "1 warp per SM"));
    }
}
