//! The matrix product, from three loops to Hopper's tensor cores.

mod cpu;
mod cuda;
mod live;
mod worker;

pub use live::{Attempt, Compilation, LiveKernel};
pub use worker::Request;

use crate::{Error, Event, Experiment, Lab, Result};
use std::collections::BTreeMap;
use warpbook_record::matmul::{Form, SHAPES, STANDARD_EDGE, rungs, takes};
use warpbook_record::{DeviceKind, Dtype, Measurement, Outcome, Problem, Run, Rung, Runner, SCHEMA, kernels, nearest};

/// The largest edge: products and their references are counted in 32 bits a side.
const MAX_EDGE: u64 = 1 << 20;

/// The experiment, with its settings.
#[derive(Debug, Clone, PartialEq)]
pub struct Matmul {
    shapes: Vec<(u64, u64, u64)>,
    dtypes: Vec<Dtype>,
    also: Vec<((u64, u64, u64), Dtype)>,
    transposed: (bool, bool),
    seed: u64,
    rungs: Option<Vec<String>>,
    tile: Option<String>,
    tiles: bool,
    transfers: bool,
    lives: Vec<LiveKernel>,
}

impl Default for Matmul {
    fn default() -> Self {
        Self {
            shapes: vec![(STANDARD_EDGE, STANDARD_EDGE, STANDARD_EDGE)],
            dtypes: vec![Dtype::F32, Dtype::Bf16],
            also: Vec::new(),
            transposed: (false, false),
            seed: 1,
            rungs: None,
            tile: None,
            tiles: true,
            transfers: true,
            lives: Vec::new(),
        }
    }
}

impl Matmul {
    /// The defaults: 4096 x 4096 x 4096 in fp32 and bf16, every rung, each with the fastest of its tiles.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The sizes of the quick suite.
    #[must_use]
    pub fn quick() -> Self {
        Self::default().shapes([(256, 256, 256), (512, 512, 512), (1000, 1000, 1000)])
    }

    /// The shapes and types of the published record: all shapes in fp32 and bf16, the cubes in tf32 and fp16.
    #[must_use]
    pub fn sweep() -> Self {
        let cubes = SHAPES.into_iter().filter(|(m, n, k)| m == n && n == k);
        let more = cubes.flat_map(|s| [Dtype::Tf32, Dtype::F16].map(|d| (s, d))).collect();
        Self { also: more, ..Self::default().shapes(SHAPES).dtypes([Dtype::F32, Dtype::Bf16]) }
    }

    /// Sizes (m, n, k) of each product, from 1 up: C is m x n, each of its elements a sum of k terms.
    #[must_use]
    pub fn shapes(mut self, shapes: impl IntoIterator<Item = (u64, u64, u64)>) -> Self {
        self.shapes = shapes.into_iter().collect();
        self
    }

    /// Types of the matrices: `F32`, `Tf32`, `F16`, `Bf16`.
    #[must_use]
    pub fn dtypes(mut self, dtypes: impl IntoIterator<Item = Dtype>) -> Self {
        self.dtypes = dtypes.into_iter().collect();
        self
    }

    /// One more product.
    #[must_use]
    pub fn also(mut self, shape: (u64, u64, u64), dtype: Dtype) -> Self {
        self.also.push((shape, dtype));
        self
    }

    /// Shape and type of each product.
    fn products(&self) -> Vec<((u64, u64, u64), Dtype)> {
        let crossed = self.dtypes.iter().flat_map(|d| self.shapes.iter().map(move |s| (*s, *d)));
        crossed.chain(self.also.iter().copied()).collect()
    }

    /// Whether A and B are stored transposed.
    #[must_use]
    pub fn transposed(mut self, a: bool, b: bool) -> Self {
        self.transposed = (a, b);
        self
    }

    /// Key of the random numbers.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Only these rungs, by id.
    #[must_use]
    pub fn rungs<S: Into<String>>(mut self, ids: impl IntoIterator<Item = S>) -> Self {
        self.rungs = Some(ids.into_iter().map(Into::into).collect());
        self
    }

    /// One tile for the rungs that have it, by id, in place of the fastest.
    #[must_use]
    pub fn tile(mut self, id: impl Into<String>) -> Self {
        self.tile = Some(id.into());
        self
    }

    /// Whether every tile of a rung is tried, and the fastest kept; else the first is taken.
    #[must_use]
    pub fn tiles(mut self, tiles: bool) -> Self {
        self.tiles = tiles;
        self
    }

    /// Whether the ways to the device and back are timed too.
    #[must_use]
    pub fn transfers(mut self, transfers: bool) -> Self {
        self.transfers = transfers;
        self
    }

    /// One more rung, with somebody's own kernel. It is tried on small products first, and run after all others: what it breaks is
    /// then measured already.
    #[must_use]
    pub fn live(mut self, kernel: LiveKernel) -> Self {
        self.lives.push(kernel);
        self
    }

    /// The learner's kernel that a rung is, if it is one.
    fn live_of(&self, rung: &Rung) -> Option<&LiveKernel> {
        self.lives.iter().find(|l| l.id() == rung.id)
    }

    /// The command that repeats it on a device.
    #[must_use]
    pub fn command(&self, device: &str) -> String {
        let shapes: Vec<String> = self.shapes.iter().map(|(m, n, k)| format!("{m}x{n}x{k}")).collect();
        let dtypes: Vec<&str> = self.dtypes.iter().map(|d| d.label()).collect();
        let mut command = format!(
            "warpbook run matmul --shape {} --dtype {} --seed {} --device {device}",
            shapes.join(","),
            dtypes.join(","),
            self.seed
        );
        for ((m, n, k), dtype) in &self.also {
            command += &format!(" --also {m}x{n}x{k}:{}", dtype.label());
        }
        let (a, b) = self.transposed;
        for (option, given) in
            [(" --trans-a", a), (" --trans-b", b), (" --no-tiles", !self.tiles), (" --no-transfers", !self.transfers)]
        {
            if given {
                command += option;
            }
        }
        if let Some(rungs) = &self.rungs {
            command += &format!(" --rungs {}", rungs.join(","));
        }
        if let Some(tile) = &self.tile {
            command += &format!(" --tile {tile}");
        }
        // Their sources are in the record.
        for live in &self.lives {
            command += &format!(" # and {}", live.id());
        }
        command
    }

    /// A record with nothing measured yet.
    fn begin(&self, lab: &Lab, rungs: Vec<Rung>, peaks: warpbook_record::Peaks) -> Run {
        let on_gpu = lab.device().info().kind == DeviceKind::Cuda;
        Run {
            schema: SCHEMA,
            experiment: self.name().into(),
            title: "Matrix product".into(),
            created: humantime::format_rfc3339_seconds(std::time::SystemTime::now()).to_string(),
            command: self.command(&lab.device().info().selector()),
            environment: lab.environment(),
            policy: lab.bench().policy(on_gpu, "A and B standard Gaussian (Philox), rounded to their type"),
            peaks,
            rungs,
            sources: BTreeMap::new(),
            measurements: Vec::new(),
            train_logs: Vec::new(),
            spans: Vec::new(),
            notes: Vec::new(),
        }
    }

    fn problem(&self, (m, n, k): (u64, u64, u64), dtype: Dtype) -> Problem {
        let (trans_a, trans_b) = self.transposed;
        Problem::Matmul { m, n, k, dtype, out: None, trans_a, trans_b, seed: self.seed }
    }

    fn form(&self, dtype: Dtype) -> Form {
        let (trans_a, trans_b) = self.transposed;
        let out = if dtype == Dtype::Tf32 { Dtype::F32 } else { dtype };
        Form { trans_a, trans_b, out, ..Form::plain(dtype) }
    }

    /// Looks at the settings before anything is allocated.
    fn validate(&self, lab: &Lab) -> Result<Vec<Rung>> {
        let setting = |text: String| Err(Error::Setting(text));
        if self.shapes.is_empty() || self.dtypes.is_empty() {
            return setting(
                "No shape or no type was given. Name at least one of each, as in --shape 4096 --dtype bf16.".into(),
            );
        }
        for ((m, n, k), dtype) in self.products() {
            if !matches!(dtype, Dtype::F32 | Dtype::Tf32 | Dtype::F16 | Dtype::Bf16) {
                return setting(format!("There is no product in {}: choose fp32, tf32, fp16 or bf16.", dtype.label()));
            }
            if m.min(n).min(k) == 0 || m.max(n).max(k) > MAX_EDGE {
                return setting(format!("{m} x {n} x {k}: each size is from 1 to {MAX_EDGE}."));
            }
            self.fits(lab, &self.problem((m, n, k), dtype))?;
        }
        self.lives.iter().try_for_each(LiveKernel::validate)?;
        let known = rungs();
        if self.rungs.as_ref().is_some_and(Vec::is_empty) {
            return setting("No rung was named. Leave the list out to run all of them.".into());
        }
        for name in self.rungs.iter().flatten() {
            if !known.iter().any(|r| r.id == *name) {
                let nearest = nearest(name, known.iter().map(|r| &*r.id)).into_iter().map(str::to_owned).collect();
                return Err(Error::UnknownRung { name: name.clone(), nearest });
            }
        }
        let chosen = Experiment::rungs(self);
        if let Some(tile) = &self.tile {
            let mut tiles: Vec<String> =
                chosen.iter().flat_map(Rung::kernels).flat_map(|k| &k.tiles).map(|t| t.id.to_string()).collect();
            tiles.sort();
            tiles.dedup();
            if !tiles.contains(tile) {
                return setting(format!("There is no tile `{tile}`. The rows permit {}.", tiles.join(", ")));
            }
        }
        Ok(chosen)
    }

    /// An error unless the matrices, the reference and the workspaces fit into the device's memory, or the host's.
    fn fits(&self, lab: &Lab, problem: &Problem) -> Result<()> {
        let Problem::Matmul { m, n, .. } = *problem else { return Ok(()) };
        let elements = m.saturating_mul(n);
        let what = format!("A product of {}", problem.label());
        match lab.device().cuda() {
            // The reference takes 16 bytes an element of C.
            Some(device) => {
                let needed = problem.bytes().saturating_add(elements.saturating_mul(16));
                device.ensure_free(what, needed.saturating_add(4 * warpbook_record::matmul::WORKSPACE_BYTES))?;
            }
            None => {
                let (host, needed) = (lab.host_memory_bytes(), problem.bytes().saturating_mul(4));
                if host > 0 && needed > host / 4 * 3 {
                    let error = warpbook_device::Error::OutOfMemory { what, needed, free: host / 4 * 3, total: host };
                    return Err(error.into());
                }
            }
        }
        Ok(())
    }
}

impl Experiment for Matmul {
    fn name(&self) -> &'static str {
        "matmul"
    }

    fn problems(&self) -> Vec<Problem> {
        self.products().into_iter().map(|(s, d)| self.problem(s, d)).collect()
    }

    fn rungs(&self) -> Vec<Rung> {
        let chosen = |r: &Rung| self.rungs.as_ref().is_none_or(|w| w.iter().any(|w| *w == r.id));
        rungs().into_iter().filter(chosen).chain(self.lives.iter().map(LiveKernel::rung)).collect()
    }

    fn run(&self, lab: &Lab) -> Result<Run> {
        let rungs = self.validate(lab)?;
        lab.tell(&Event::Planned { measurements: self.problems().len() * rungs.len() });
        lab.tell(&Event::Preparing("measuring the ceilings of the device"));
        let mut notes = Vec::new();
        let peaks = lab.peaks().unwrap_or_else(|e| {
            notes.push(format!("The ceilings could not be measured: {e}"));
            warpbook_record::Peaks::default()
        });
        let mut run = self.begin(lab, rungs, peaks);
        run.notes = notes;
        if lab.device().cuda().is_some() {
            run.notes.push(
                "Rungs and libraries that are within five times of the fastest were timed in turn, a sample of each a round, so that all saw the same clocks."
                    .into(),
            );
        }
        run.collect_sources(kernels::HEADERS);
        let mut lost = None;
        for problem in self.problems() {
            match lab.device().cuda() {
                Some(device) => self.run_on_gpu(lab, device, &problem, &mut run, &mut lost),
                None => self.run_on_cpu(lab, &problem, &mut run),
            }
        }
        run.environment.clocks = lab.watch().report();
        if lab.bench().cancel.is_cancelled() {
            let (measured, ..) = run.counts();
            run.notes.push(format!("Interrupted after {measured} of {} measurements.", run.measurements.len()));
        }
        Ok(run)
    }
}

fn without(rung: &Rung, problem: &Problem, outcome: Outcome) -> Measurement {
    Measurement::without_samples(&*rung.id, problem.clone(), outcome)
}

fn skipped(rung: &Rung, problem: &Problem, why: impl Into<String>) -> Measurement {
    without(rung, problem, Outcome::Skipped { why: why.into() })
}

fn failed(rung: &Rung, problem: &Problem, error: impl std::fmt::Display) -> Measurement {
    without(rung, problem, Outcome::Failed { error: error.to_string() })
}

/// Whether a rung runs on the processor.
fn is_cpu(rung: &Rung) -> bool {
    matches!(rung.runner, Runner::Cpu(_))
}

/// Sizes and type of a matrix product.
fn sizes(problem: &Problem) -> (u64, u64, u64, Dtype) {
    match *problem {
        Problem::Matmul { m, n, k, dtype, .. } => (m, n, k, dtype),
        _ => (0, 0, 0, Dtype::Other),
    }
}

/// Whether a rung of kernels takes a type at all.
fn takes_type(rung: &Rung, dtype: Dtype) -> bool {
    takes(&rung.id).is_none_or(|t| t.dtypes.contains(&dtype))
}
