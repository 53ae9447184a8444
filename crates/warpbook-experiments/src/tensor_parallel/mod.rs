//! A matrix product over several GPUs, split by rows or by K, with copies, remote stores or NCCL, compared with a
//! single GPU.

mod prepared;
mod team;

use crate::builders::{seeded, selects};
use prepared::{Nothing, TensorParallelWork};
use std::sync::{Arc, Mutex, PoisonError};
use team::Team;
use warpbook_device::{Bench, CudaDevice, Inventory, Route, all_reduce_curve, copy_curves, link_peak};
use warpbook_gemm::tensor_parallel::{Split, Timeline};
use warpbook_kernels::matmul::{WORKSPACE_BYTES, problem, shape_of};
use warpbook_lab::activity::Timelines;
use warpbook_lab::experiment::Prepared;
use warpbook_lab::settings::{
    self, Configurable, Preset, Selection, Setting, joined, list, parse_count, parse_dtype, parse_shape,
};
use warpbook_lab::{Error, Experiment, Lab, Plan, Result};
use warpbook_record::{
    Baseline, ChartKind, Column, Descriptor, Dtype, Inputs, Peaks, Problem, Quantity, Requires, Run, Rung, Runner,
    Span, SweepAxis,
};

/// Largest edge of a matrix, as in the matrix product.
const MAX_EDGE: u64 = 1 << 20;
/// Largest number of panels into which a GPU's rows are split.
const MAX_PANELS: u64 = 256;
/// Edge length of the cubic product that is measured by default.
const STANDARD_EDGE: u64 = 8192;
/// Edge lengths of the cubic products of the sweep.
const EDGES: [u64; 5] = [1024, 2048, 4096, 8192, 16384];

/// Describes the rule that chooses the matrix product kernel in every rung.
const RULE: &str = "the expected times of the tiles on one GPU, without tuning";
/// Id of the rung that the others are compared with.
const ONE_GPU: &str = "one_gpu";

/// The way in which results reach the first GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ResultTransfer {
    Copies,
    Stores,
    Nccl,
}

/// One way of computing the product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ProductWay {
    id: &'static str,
    title: &'static str,
    idea: &'static str,
    /// The split of the product over several GPUs; `None` for one GPU.
    split: Option<Split>,
    by: ResultTransfer,
}

/// All ways of computing the product, in the order of the ladder.
const WAYS: [ProductWay; 6] = [
    ProductWay {
        id: ONE_GPU,
        title: "One GPU",
        idea: "The whole product on the first GPU, by the kernel that gemm() picks.",
        split: None,
        by: ResultTransfer::Copies,
    },
    ProductWay {
        id: "rows_peer",
        title: "By rows, copies",
        idea: "Each GPU computes some rows of C; panels are copied to the first while the next ones are multiplied.",
        split: Some(Split::Rows),
        by: ResultTransfer::Copies,
    },
    ProductWay {
        id: "rows_stored",
        title: "By rows, stored across",
        idea: "The same without copies: the other GPU's kernel stores its tiles of C into the first GPU's memory.",
        split: Some(Split::Rows),
        by: ResultTransfer::Stores,
    },
    ProductWay {
        id: "rows_nccl",
        title: "By rows, NCCL",
        idea: "Panels as by copies, with ncclSend and ncclRecv, whose kernels take SMs from the multiplication.",
        split: Some(Split::Rows),
        by: ResultTransfer::Nccl,
    },
    ProductWay {
        id: "k_peer",
        title: "By K, copies",
        idea: "Each GPU adds up some of the terms; the partial products are copied to the first GPU in fp32 and added there.",
        split: Some(Split::K),
        by: ResultTransfer::Copies,
    },
    ProductWay {
        id: "k_nccl",
        title: "By K, NCCL",
        idea: "The same with ncclReduce, which adds while it communicates.",
        split: Some(Split::K),
        by: ResultTransfer::Nccl,
    },
];

impl ProductWay {
    fn for_rung(rung: &Rung) -> Option<Self> {
        WAYS.into_iter().find(|way| way.id == rung.id)
    }

    fn rung(self) -> Rung {
        Rung {
            id: self.id.into(),
            title: self.title.into(),
            idea: self.idea.into(),
            requires: Requires::AtLeast(7, 5),
            runner: Runner::Chosen(RULE.into()),
            variant_of: None,
        }
    }

    /// Describes the communication on the first GPU or on another one.
    fn communication(self, is_first: bool) -> &'static str {
        match (self.by, self.split, is_first) {
            (ResultTransfer::Copies | ResultTransfer::Stores, ..) => "copy to the first GPU",
            (ResultTransfer::Nccl, Some(Split::K), _) => "ncclReduce",
            (ResultTransfer::Nccl, _, true) => "ncclRecv",
            (ResultTransfer::Nccl, _, false) => "ncclSend",
        }
    }
}

/// The experiment for products over several GPUs, with its settings.
#[derive(Debug, Clone)]
pub struct TensorParallel {
    shapes: Vec<(u64, u64, u64)>,
    dtypes: Vec<Dtype>,
    gpus: Option<u64>,
    panels: Option<u64>,
    seed: u64,
    selection: Selection,
    /// The GPUs of a run, after they have been opened.
    team: Arc<Mutex<Option<Arc<Team>>>>,
}

impl Default for TensorParallel {
    fn default() -> Self {
        Self {
            shapes: vec![(STANDARD_EDGE, STANDARD_EDGE, STANDARD_EDGE)],
            dtypes: vec![Dtype::Bf16],
            gpus: None,
            panels: None,
            seed: 1,
            selection: Selection::default(),
            team: Arc::default(),
        }
    }
}

selects!(TensorParallel);
seeded!(TensorParallel, "Key of the random numbers.");

impl TensorParallel {
    /// Creates the default experiment: 8192 x 8192 x 8192 in bf16 over all GPUs, with every rung.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates the experiment with the sizes of the quick suite.
    #[must_use]
    pub fn quick() -> Self {
        Self::default().shapes([(512, 512, 512), (2048, 2048, 2048)])
    }

    /// Creates the experiment with cubic products from 1024 to 16384.
    #[must_use]
    pub fn sweep() -> Self {
        Self::default().shapes(EDGES.map(|edge| (edge, edge, edge)))
    }

    /// Sets the sizes (m, n, k) of each product, which must be at least 1.
    #[must_use]
    pub fn shapes(mut self, shapes: impl IntoIterator<Item = (u64, u64, u64)>) -> Self {
        self.shapes = shapes.into_iter().collect();
        self
    }

    /// Sets the data types of the matrices: `F32`, `Tf32`, `F16`, `Bf16`.
    #[must_use]
    pub fn dtypes(mut self, dtypes: impl IntoIterator<Item = Dtype>) -> Self {
        self.dtypes = dtypes.into_iter().collect();
        self
    }

    /// Sets the number of GPUs, counted from the lab's first GPU. By default, all are used.
    #[must_use]
    pub fn gpus(mut self, gpus: u64) -> Self {
        self.gpus = Some(gpus);
        self.team = Arc::default();
        self
    }

    /// Sets the number of panels into which a GPU's rows are split. By default, the number with the best expected time
    /// is used.
    #[must_use]
    pub fn panels(mut self, panels: u64) -> Self {
        self.panels = Some(panels);
        self
    }

    fn all_rungs() -> Vec<Rung> {
        WAYS.into_iter().map(ProductWay::rung).collect()
    }

    /// Returns the GPUs for runs of a lab; `None` on the CPU.
    fn team(&self, lab: &Lab) -> Result<Option<Arc<Team>>> {
        let Some(first) = lab.device().cuda() else { return Ok(None) };
        let mut kept = self.team.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(team) = kept.as_ref().filter(|team| team.is_of(first)) {
            return Ok(Some(team.clone()));
        }
        Ok(Some(kept.insert(Arc::new(Team::open(first, self.gpus)?)).clone()))
    }

    /// Returns an error unless the matrices and all intermediate arrays fit into the memory of each GPU.
    fn fits(&self, lab: &Lab, problem: &Problem) -> Result<()> {
        let (Some(team), Some((m, n, _))) = (self.team(lab)?, shape_of(problem)) else { return Ok(()) };
        let elements = m.saturating_mul(n);
        let gpus = team.devices.len() as u64;
        for (rank, device) in team.devices.iter().enumerate() {
            // The first GPU also stores the reference (16 bytes per element) and a partial product of each GPU; the
            // others also store the arrays of every rung.
            let more = if rank == 0 { elements.saturating_mul(16 + 12 * gpus) } else { elements.saturating_mul(16) };
            let needed = problem.bytes.saturating_mul(4).saturating_add(more).saturating_add(6 * WORKSPACE_BYTES);
            device.ensure_free(format!("A product of {} over {gpus} GPUs", problem.label), needed)?;
        }
        Ok(())
    }

    /// Returns one problem for each product of the experiment.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        let problems_in = |dtype: Dtype| self.shapes.iter().map(move |s| problem(*s, dtype, (false, false), self.seed));
        self.dtypes.iter().flat_map(|dtype| problems_in(*dtype)).collect()
    }

    fn descriptor() -> Descriptor {
        use Column::{BoundBy, Check, Mad, Median, OfBound, SpeedUp};
        Descriptor {
            headline: Quantity::Throughput,
            quantities: vec![Quantity::Throughput, Quantity::Time, Quantity::SpeedUp],
            baseline: Baseline::Rung(ONE_GPU.into()),
            axis: SweepAxis { caption: "edge of the matrices (m = n = k)".into(), unit: String::new(), doubling: true },
            columns: vec![Median, Mad, Column::Throughput, SpeedUp, OfBound, BoundBy, Check],
            charts: vec![ChartKind::Ladder, ChartKind::Sweep, ChartKind::Roofline, ChartKind::Timeline],
            ..Descriptor::default()
        }
    }

    /// Returns an error unless the settings are valid and the GPUs of the lab, if given, can hold the matrices.
    fn validate(&self, lab: Option<&Lab>) -> Result<()> {
        let setting = |text: String| Err(Error::Setting(text));
        if self.shapes.is_empty() || self.dtypes.is_empty() {
            return setting(
                "No shape or no type was given. Name at least one of each, as in --shape 8192 --dtype bf16.".into(),
            );
        }
        for (m, n, k) in &self.shapes {
            if *m.min(n).min(k) == 0 || *m.max(n).max(k) > MAX_EDGE {
                return setting(format!("{m} x {n} x {k}: each size is from 1 to {MAX_EDGE}."));
            }
        }
        for dtype in &self.dtypes {
            if !matches!(dtype, Dtype::F32 | Dtype::Tf32 | Dtype::F16 | Dtype::Bf16) {
                return setting(format!("Unsupported type {}: choose fp32, tf32, fp16 or bf16.", dtype.label()));
            }
        }
        if self.panels.is_some_and(|n| !(1..=MAX_PANELS).contains(&n)) {
            return setting(format!("--panels is from 1 to {MAX_PANELS}, or left out."));
        }
        if self.gpus == Some(0) {
            return setting("--gpus 0: choose at least 1, or leave it out for all GPUs.".into());
        }
        self.selection.validate(&Self::all_rungs())?;
        lab.map_or(Ok(()), |lab| self.problems().iter().try_for_each(|problem| self.fits(lab, problem)))
    }

    /// Adds the measured bandwidth of the link to the ceilings if there are several GPUs.
    fn measure_links(&self, lab: &Lab, peaks: &mut Peaks) -> Result<()> {
        let Some(team) = self.team(lab)?.filter(|team| team.devices.len() > 1) else { return Ok(()) };
        let bench = Bench { samples: 10.min(lab.bench().samples), budget_s: 0.2, ..lab.bench().clone() };
        peaks.links.extend(copy_curves(&team.devices[0], &team.devices[1], &bench)?);
        peaks.bandwidth.extend(link_peak(peaks));
        if let Some((_, rate)) = peaks.link(warpbook_record::LinkTransfer::OneWay).and_then(|curve| curve.best()) {
            team.keep_link_rate(rate);
        }
        peaks.links.push(all_reduce_curve(&team.devices, &team.nccl()?, &bench)?);
        Ok(())
    }
}

impl Experiment for TensorParallel {
    fn plan(&self, lab: Option<&Lab>) -> Result<Plan> {
        self.validate(lab)?;
        let (problems, this) = (self.problems(), self.clone());
        let is_standard = |p: &&Problem| shape_of(p) == Some((STANDARD_EDGE, STANDARD_EDGE, STANDARD_EDGE));
        Ok(Plan {
            title: "Product over several GPUs".into(),
            descriptor: Self::descriptor(),
            inputs: Inputs::of_all("A and B standard Gaussian (Philox), rounded to their type")
                .with("", "each GPU has its operands before the time is taken"),
            main_problem: problems.iter().find(is_standard).cloned(),
            ceilings: Some(Arc::new(move |lab, peaks| this.measure_links(lab, peaks))),
            ..settings::plan(self, problems, self.selection.select(Self::all_rungs()))
        })
    }

    fn obstacle(&self, lab: &Lab, rung: &Rung, _: &Problem, _: &Run) -> Option<String> {
        let way = ProductWay::for_rung(rung).filter(|way| way.split.is_some())?;
        let team = match self.team(lab) {
            Ok(team) => team?,
            Err(why) => return Some(why.to_string()),
        };
        if team.devices.len() < 2 {
            let there = Inventory::cuda_devices().map_or(1, |all| all.len());
            return Some(match there {
                0 | 1 => "needs two GPUs, and this machine has one".into(),
                n => format!("needs two GPUs, and one of the {n} that are here was asked for (--gpus 1)"),
            });
        }
        match way.by {
            ResultTransfer::Copies => None,
            ResultTransfer::Stores => {
                let apart = |other: &CudaDevice| matches!(team.devices[0].connect(other), Ok(Route::Host));
                team.devices[1..]
                    .iter()
                    .any(apart)
                    .then(|| "needs GPUs that can access each other's memory, as over NVLink".into())
            }
            ResultTransfer::Nccl => team.nccl().err().map(|why| why.to_string()),
        }
    }

    fn prepare<'a>(&'a self, lab: &'a Lab, problem: &Problem) -> Result<Box<dyn Prepared + 'a>> {
        Ok(match self.team(lab)? {
            Some(team) => Box::new(TensorParallelWork::draw(self, lab, team, problem, true)?),
            None => Box::new(Nothing),
        })
    }

    /// Records a run of each rung that uses several GPUs, with events.
    fn activity(&self, lab: &Lab, measured: &Run) -> Result<Timelines> {
        let mut found = Timelines::default();
        let Some(team) = self.team(lab)?.filter(|team| team.devices.len() > 1) else { return Ok(found) };
        for problem in &measured.problems {
            let sound = |way: &ProductWay| measured.measurement(way.id, problem).is_some_and(|m| measured.is_sound(m));
            let ways: Vec<ProductWay> = WAYS.into_iter().filter(|way| way.split.is_some()).filter(sound).collect();
            if ways.is_empty() {
                continue;
            }
            let work = TensorParallelWork::draw(self, lab, team.clone(), problem, false)?;
            for way in ways {
                lab.bench().cancel.check()?;
                let timeline = work.timeline(way)?;
                found.notes.push(sentence(way, problem, &timeline));
                found.spans.extend(spans(way, problem, &team, &timeline));
            }
        }
        Ok(found)
    }
}

/// Describes a timeline for a note in the record.
fn sentence(way: ProductWay, problem: &Problem, timeline: &Timeline) -> String {
    let us = |us: f64| warpbook_charts::words::time(us);
    if way.by == ResultTransfer::Stores {
        return format!(
            "{}, {}: a run of {}; what is communicated is stored by the kernels that multiply, and so has no time of its own. By events, which make a \
             run longer; the clocks of the GPUs agree within {}.",
            way.id,
            problem.label,
            us(timeline.whole_us),
            us(timeline.clock_error_us)
        );
    }
    format!(
        "{}, {}: of a run of {} something was communicated for {}, and for {} of that no GPU multiplied. By events, which make a run longer; \
         the clocks of the GPUs agree within {}.",
        way.id,
        problem.label,
        us(timeline.whole_us),
        us(timeline.communicating_us()),
        us(timeline.exposed_us()),
        us(timeline.clock_error_us)
    )
}

fn spans(way: ProductWay, problem: &Problem, team: &Team, timeline: &Timeline) -> Vec<Span> {
    use warpbook_gemm::tensor_parallel::Doing;
    let mut all: Vec<Span> = timeline
        .stretches
        .iter()
        .map(|s| {
            let (name, lane) = match s.doing {
                Doing::Multiplying if way.by == ResultTransfer::Stores => {
                    ("product, stored on the first GPU", "multiplication")
                }
                Doing::Multiplying => ("product of a panel", "multiplication"),
                Doing::Communicating => (way.communication(s.rank == 0), "communication"),
                Doing::Adding => ("add_partials", "communication"),
            };
            Span {
                rung: way.id.into(),
                problem: problem.clone(),
                name: name.into(),
                operation: format!("panel{} {}", s.panel + 1, s.doing.label()),
                stream: format!("cuda:{} {lane}", team.devices[s.rank].info().index),
                start_us: s.start_us,
                duration_us: s.duration_us,
                bytes: s.bytes,
                correlation: None,
            }
        })
        .collect();
    // Keep the lanes of a GPU next to each other, no matter which was queued first.
    all.sort_by(|a, b| a.stream.cmp(&b.stream).reverse().then(a.start_us.total_cmp(&b.start_us)));
    all
}

impl Configurable for TensorParallel {
    const NAME: &'static str = "tensor-parallel";
    const ABOUT: &'static str = "A product over several GPUs, by rows and by K, with copies, stores and NCCL";
    const DETAILS: &'static str = "\
C = A B over several GPUs of one process (tensor parallelism), compared with one GPU. By rows each GPU computes some rows of C; by K \
each adds up some of the terms, and the partial products are added. Either way C ends up on the first GPU: in panels whose way there overlaps with the \
multiplication of the next, or, by rows, stored there by the kernels that multiply. Before that the link between the GPUs is measured: copies one way and both ways, and all-reduces, over their size. \
Every element of every result is compared with the product in f64, before and after it is timed.";
    const EXAMPLES: &'static str = "\
  warpbook run tensor-parallel
  warpbook run tensor-parallel --quick
  warpbook run tensor-parallel --shape 8192 --dtype bf16 --gpus 2 --panels 8
  warpbook run tensor-parallel --rungs one_gpu,rows_peer,rows_stored --shape 4096,8192,16384
  warpbook run tensor-parallel --sweep --out tensor-parallel.json";

    fn preset(preset: Preset) -> Self {
        match preset {
            Preset::Standard => Self::new(),
            Preset::Quick => Self::quick(),
            Preset::Sweep => Self::sweep(),
        }
    }

    fn offered() -> Vec<Setting<Self>> {
        let [rungs, _] = Selection::settings();
        vec![
            Setting {
                name: "shape",
                value: Some("MxNxK[,..]"),
                help: "Sizes m x n x k of a product, such as 8192x8192x1024, or one number for a cube; several with commas. [default: 8192, \
                       with --quick 512,2048]",
                set: |e, text| Ok(e.shapes(list(text, parse_shape)?)),
                get: |e| Some(joined(e.shapes.iter().map(|(m, n, k)| format!("{m}x{n}x{k}")))),
            },
            Setting {
                name: "dtype",
                value: Some("TYPE[,..]"),
                help: "Types of the matrices: fp32, tf32, fp16, bf16; several with commas. [default: bf16]",
                set: |e, text| Ok(e.dtypes(list(text, parse_dtype)?)),
                get: |e| Some(joined(e.dtypes.iter().map(|d| d.label().to_owned()))),
            },
            Setting {
                name: "gpus",
                value: Some("N"),
                help: "Number of GPUs to use: the one given by --device, then the others in numerical order. [default: all]",
                set: |e, text| Ok(e.gpus(parse_count(text)?)),
                get: |e| e.gpus.map(|n| n.to_string()),
            },
            Setting {
                name: "panels",
                value: Some("N"),
                help: "Number of panels into which each GPU's rows are split. [default: the number with the shortest expected time, by the tiles' \
                       times and the link's bandwidth]",
                set: |e, text| Ok(e.panels(parse_count(text)?)),
                get: |e| e.panels.map(|n| n.to_string()),
            },
            Self::seed_setting("Seed of the random numbers. [default: 1]"),
            rungs,
        ]
    }
}
