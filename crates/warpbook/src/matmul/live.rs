//! A learner's own kernel in the place of a rung's: compiled, tried, timed beside the ladder, and kept with its source.

use super::Matmul;
use super::worker;
use crate::display::KernelView;
use crate::{Error, Event, Experiment, Lab, Result};
use serde::{Deserialize, Serialize};
use warpbook_device::{CompileError, Compiler};
use warpbook_nn::gemm::{Plan, Product};
use warpbook_record::matmul::{CUBLAS, rungs, takes};
use warpbook_record::{
    Define, Dtype, KernelSpec, KernelStats, LIVE, Measurement, Outcome, Problem, Requires, Run, Rung, Runner, Tile,
    base, nearest,
};

/// The edge of the cube that an attempt is timed at.
const EDGE: u64 = 2048;
/// Seconds after which a kernel is taken for endless.
const LIMIT_S: f64 = 5.0;
/// What is compiled for where there is no GPU.
const WITHOUT_GPU: &str = "sm_90";

/// A rung of the matrix product with another source: its file is replaced, what it is given and how it is launched stay.
///
/// The source defines `extern "C" __global__ void gemm(...)` with the parameters of the rung's own, and may include what that
/// includes. Its grid is made of tiles of `BM` x `BN`, `THREADS` threads a block: these and the other sizes come as macros.
///
/// ```
/// use warpbook::prelude::*;
///
/// let mine = LiveKernel::of("02_coalesced")?.named("wider").size("BN", 64).size("BM", 4);
/// assert!(mine.text().contains("__global__"));
/// # Ok::<(), warpbook::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LiveKernel {
    base: String,
    name: String,
    source: String,
    tile: Tile,
    shape: (u64, u64, u64),
    dtype: Dtype,
    against: Vec<String>,
    limit_s: f64,
    /// It runs in a process of its own, which is ended if the kernel does not end.
    #[serde(default)]
    pub(super) isolated: bool,
}

impl LiveKernel {
    /// A rung as it is, with its first tile; at 2048 x 2048 x 2048, in fp32 where the rung takes that, else in bf16.
    ///
    /// # Errors
    /// There is no such rung, or it has no kernel.
    pub fn of(rung: &str) -> Result<Self> {
        let known = rungs();
        let with_kernels = || known.iter().filter(|r| !r.kernels().is_empty());
        let Some(found) = with_kernels().find(|r| r.id == rung) else {
            let nearest = nearest(rung, with_kernels().map(|r| &*r.id)).into_iter().map(str::to_owned).collect();
            return Err(Error::UnknownRung { name: rung.into(), nearest });
        };
        let spec = &found.kernels()[0];
        let types = takes(rung).map_or(&[Dtype::F32][..], |t| t.dtypes);
        Ok(Self {
            base: rung.into(),
            name: "mine".into(),
            source: spec.source.to_string(),
            tile: spec.tiles[0].clone(),
            shape: (EDGE, EDGE, EDGE),
            dtype: if types.contains(&Dtype::F32) { Dtype::F32 } else { Dtype::Bf16 },
            against: vec![rung.into(), CUBLAS.into()],
            limit_s: LIMIT_S,
            isolated: false,
        })
    }

    /// Another name, of letters, digits, `-` and `_`; without one it is `mine`.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Another source, CUDA C++.
    #[must_use]
    pub fn source(mut self, text: impl Into<String>) -> Self {
        self.source = text.into();
        self
    }

    /// One passage of the source replaced by another.
    ///
    /// # Errors
    /// The source does not have the passage, or has it more than once.
    pub fn replacing(mut self, passage: &str, by: &str) -> Result<Self> {
        match self.source.matches(passage).count() {
            1 => {
                self.source = self.source.replacen(passage, by, 1);
                Ok(self)
            }
            0 => Err(Error::Setting(format!("The source of {} has no passage `{passage}`.", self.base))),
            n => Err(Error::Setting(format!(
                "The source of {} has `{passage}` {n} times. Quote more of what is around it.",
                self.base
            ))),
        }
    }

    /// Another of the rung's own tiles, by id.
    ///
    /// # Errors
    /// The rung has no such tile.
    pub fn tile(mut self, id: &str) -> Result<Self> {
        let rung = self.base_rung();
        let tiles = rung.iter().flat_map(Rung::kernels).flat_map(|k| &k.tiles);
        let known: Vec<&str> = tiles.clone().map(|t| &*t.id).collect();
        match tiles.clone().find(|t| t.id == id) {
            Some(tile) => {
                self.tile = tile.clone();
                Ok(self)
            }
            None => Err(Error::Setting(format!("{} has no tile `{id}`. It has {}.", self.base, known.join(", ")))),
        }
    }

    /// One size of the tile, as `BM`, or a new one: the source gets it as a macro. The grid follows `BM` and `BN`, the block
    /// `THREADS`, and `DYNAMIC_SHARED_BYTES` is what its name says.
    #[must_use]
    pub fn size(mut self, name: impl Into<String>, value: i64) -> Self {
        let name = name.into();
        match self.tile.defines.iter_mut().find(|d| d.name == name) {
            Some(define) => define.value = value,
            None => self.tile.defines.push(Define::new(name, value)),
        }
        self.tile.id = "own".into();
        self
    }

    /// Sizes m, n and k of the product that is timed.
    #[must_use]
    pub fn shape(mut self, m: u64, n: u64, k: u64) -> Self {
        self.shape = (m, n, k);
        self
    }

    /// Type of the matrices.
    #[must_use]
    pub fn dtype(mut self, dtype: Dtype) -> Self {
        self.dtype = dtype;
        self
    }

    /// The rungs that are timed beside it; without this its own rung and cuBLAS.
    #[must_use]
    pub fn against<S: Into<String>>(mut self, rungs: impl IntoIterator<Item = S>) -> Self {
        self.against = rungs.into_iter().map(Into::into).collect();
        self
    }

    /// Seconds after which the kernel is taken for endless and stopped; 5 without this.
    #[must_use]
    pub fn time_limit(mut self, seconds: f64) -> Self {
        self.limit_s = seconds;
        self
    }

    /// Its source as it stands.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.source
    }

    /// Its source with line numbers, as the compiler counts them.
    #[must_use]
    pub fn view(&self) -> KernelView {
        KernelView::of(&self.rung())
    }

    /// Its rung's id: `02_coalesced+mine` is a variant of `02_coalesced`.
    #[must_use]
    pub fn id(&self) -> String {
        format!("{}+{}", self.base, self.name)
    }

    pub(super) fn limit_s(&self) -> f64 {
        self.limit_s
    }

    fn base_rung(&self) -> Option<Rung> {
        rungs().into_iter().find(|r| r.id == self.base)
    }

    /// It as a rung, whose file is `live/NAME.cu`.
    #[must_use]
    pub fn rung(&self) -> Rung {
        let Some(of) = self.base_rung() else {
            // Only a request that somebody wrote by hand names a rung that is not there; `validate` says so.
            return Rung {
                id: self.id().into(),
                title: self.name.clone().into(),
                idea: "".into(),
                requires: Requires::Nothing,
                runner: Runner::Cpu("".into()),
            };
        };
        let own = |spec: &KernelSpec| KernelSpec {
            file: format!("{LIVE}{}.cu", self.name).into(),
            source: self.source.clone().into(),
            tiles: vec![self.tile.clone()],
            ..spec.clone()
        };
        let specs = of.kernels().iter().map(own).collect();
        let schedule = of.schedule().unwrap_or(warpbook_record::Schedule::Launches);
        Rung {
            id: self.id().into(),
            title: self.name.clone().into(),
            idea: format!("Somebody's own kernel in the place of {}.", of.title).into(),
            requires: of.requires,
            runner: Runner::Kernels { specs, schedule },
        }
    }

    fn experiment(&self) -> Matmul {
        Matmul::new()
            .shapes([self.shape])
            .dtypes([self.dtype])
            .rungs(self.against.iter().cloned())
            .tiles(false)
            .transfers(false)
            .live(self.clone())
    }

    fn problem(&self) -> Problem {
        self.experiment().problems().swap_remove(0)
    }

    pub(super) fn validate(&self) -> Result<()> {
        let setting = |text: String| Err(Error::Setting(text));
        if self.base_rung().is_none_or(|r| r.kernels().is_empty()) {
            return setting(format!("There is no rung `{}` with a kernel.", self.base));
        }
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if self.name.is_empty() || self.name.len() > 40 || !self.name.chars().all(fits) {
            return setting(format!(
                "`{}` is no name for a kernel: take up to 40 letters, digits, - and _.",
                self.name
            ));
        }
        if !(self.limit_s > 0.0 && self.limit_s <= 600.0) {
            return setting(format!("A time limit of {} s: choose one above 0 and up to 600.", self.limit_s));
        }
        let size = |name: &str| self.tile.get(name).is_some_and(|v| v > 0 && v <= 1 << 20);
        if let Some(missing) = ["BM", "BN", "THREADS"].into_iter().find(|n| !size(n)) {
            return setting(format!(
                "The size {missing} has to be a number from 1 to 1048576: the launch is made of it."
            ));
        }
        if let Some(taken) = takes(&self.base).filter(|t| !t.dtypes.contains(&self.dtype)) {
            let known: Vec<&str> = taken.dtypes.iter().map(|d| d.label()).collect();
            return setting(format!("{} takes {}, not {}.", self.base, known.join(", "), self.dtype.label()));
        }
        Ok(())
    }

    /// What the compiler is given: the rung's kernel as the product needs it.
    fn spec(&self) -> Result<KernelSpec> {
        let (m, n, k) = self.shape;
        let side = |v: u64| u32::try_from(v).unwrap_or(u32::MAX);
        let product = Product::new(side(m), side(n), side(k), self.experiment().form(self.dtype));
        Plan::spec(&self.rung(), &product).ok_or_else(|| Error::Setting(format!("{} has no kernel.", self.base)))
    }
}

/// What came of a learner's kernel.
#[derive(Debug, Clone)]
pub struct Attempt {
    pub(crate) rung: Rung,
    pub(crate) problem: Problem,
    pub(crate) architecture: String,
    pub(crate) compiled: Compilation,
    pub(crate) run: Run,
}

/// What the compiler made of it.
#[derive(Debug, Clone, PartialEq)]
pub enum Compilation {
    /// Code, with what the assembler says of it.
    Code(Box<KernelStats>),
    /// Nothing: it does not compile.
    Broken(Box<CompileError>),
    /// Nothing, for another reason, in a sentence.
    None(String),
}

impl Attempt {
    /// Whether it compiles.
    #[must_use]
    pub fn compiles(&self) -> bool {
        matches!(self.compiled, Compilation::Code(_))
    }

    /// What the compiler made of it.
    #[must_use]
    pub fn compiled(&self) -> &Compilation {
        &self.compiled
    }

    /// Its row: measured, skipped where there is no GPU, or failed with the reason.
    #[must_use]
    pub fn measurement(&self) -> Option<&Measurement> {
        self.run.measurement(&self.rung.id, &self.problem)
    }

    /// Whether it ran and every element was right.
    #[must_use]
    pub fn is_right(&self) -> bool {
        self.measurement().is_some_and(Measurement::is_valid)
    }

    /// Why it is not right, if it ran or was to run and is not.
    #[must_use]
    pub fn error(&self) -> Option<&str> {
        match &self.measurement()?.outcome {
            Outcome::Failed { error } => Some(error),
            _ => None,
        }
    }

    /// The record of this attempt, with the rungs that were timed beside it. Its source is in it.
    #[must_use]
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// A record of the ladder, and with it this kernel, its source and its figures: what the page shows beside each other.
    ///
    /// # Errors
    /// The ladder was measured on another device.
    pub fn beside(&self, ladder: &Run) -> Result<Run> {
        let (theirs, ours) = (&ladder.environment.device, &self.run.environment.device);
        if self.measurement().is_some_and(|m| m.outcome == Outcome::Measured) && theirs.name != ours.name {
            return Err(Error::Setting(format!(
                "The ladder was measured on {}, this kernel on {}: their figures do not belong into one record.",
                theirs.name, ours.name
            )));
        }
        let mut both = ladder.clone();
        both.rungs.retain(|r| r.id != self.rung.id);
        both.measurements.retain(|m| m.rung != self.rung.id);
        both.rungs.push(self.rung.clone());
        both.measurements.extend(self.measurement().cloned());
        both.collect_sources(&[]);
        Ok(both)
    }
}

impl Lab {
    /// Compiles a learner's kernel, tries it on small products and holds every element against f64, and times it beside the rungs
    /// that it names. What goes wrong with the kernel is told by the attempt.
    ///
    /// Where the program `warpbook` is found, the kernel runs in a process of its own: one that loops for ever is stopped with that
    /// process, and a crash takes nothing with it. It is looked for in `WARPBOOK_WORKER`, among what this workspace has built, and on
    /// the `PATH`. Without it the kernel runs in this process, and ends the use of the GPU there if it crashes or does not end;
    /// records stay.
    ///
    /// Without a GPU it is compiled only.
    ///
    /// # Errors
    /// Settings that make no sense, and a device that cannot be used at all.
    pub fn attempt(&self, live: &LiveKernel) -> Result<Attempt> {
        live.validate()?;
        let (rung, problem) = (live.rung(), live.problem());
        let (architecture, compiled) = self.compile_live(live)?;
        let mut attempt = Attempt { rung, problem, architecture, compiled, run: self.empty(live) };
        attempt.run = match &attempt.compiled {
            Compilation::Broken(error) => attempt.without_figures(Outcome::Failed { error: error.to_string() }),
            Compilation::None(why) => attempt.without_figures(Outcome::Failed { error: why.clone() }),
            Compilation::Code(_) => match self.obstacle(&attempt.rung) {
                Some(why) => attempt.without_figures(Outcome::Skipped { why }),
                None => match worker::run(self, live)? {
                    worker::Came::Back(run) => *run,
                    worker::Came::Not(error) => attempt.without_figures(Outcome::Failed { error }),
                    worker::Came::Never => self.attempt_here(live)?,
                },
            },
        };
        Ok(attempt)
    }

    /// The same in this process, whatever comes of it: what a worker does.
    ///
    /// # Errors
    /// As of [`Lab::attempt`].
    pub fn attempt_here(&self, live: &LiveKernel) -> Result<Run> {
        live.validate()?;
        self.tell(&Event::Preparing("trying the kernel on small products"));
        self.run(&live.experiment())
    }

    /// A record of nothing yet.
    fn empty(&self, live: &LiveKernel) -> Run {
        live.experiment().begin(self, Vec::new(), warpbook_record::Peaks::default())
    }

    fn compile_live(&self, live: &LiveKernel) -> Result<(String, Compilation)> {
        let (rung, spec) = (live.rung(), live.spec()?);
        let architecture = match (&rung.requires, self.device().cuda()) {
            (_, Some(device)) => device.architecture_of(&spec),
            (Requires::Exactly(name), None) => name.to_string(),
            _ => WITHOUT_GPU.into(),
        };
        let compiler = match self.device().cuda() {
            Some(device) => device.compiler().cloned(),
            None => Compiler::new(None),
        };
        let missing = || {
            Compilation::None(format!(
                "The source compiles, but defines no kernel `extern \"C\" __global__ void {}(...)`.",
                spec.entry
            ))
        };
        let compiled = match compiler.and_then(|c| c.compile(&spec, &live.tile, &architecture)) {
            Ok(code) => match (code.stats_of(&spec.entry), self.device().cuda()) {
                (None, _) => missing(),
                // The device knows how many of its blocks fit.
                (Some(_), Some(device)) => device.kernel(&spec, &live.tile).map_or_else(
                    |error| Compilation::None(error.to_string()),
                    |kernel| Compilation::Code(Box::new(kernel.stats().clone())),
                ),
                (Some(stats), None) => Compilation::Code(Box::new(stats.clone())),
            },
            Err(warpbook_device::Error::Compile(error)) => Compilation::Broken(error),
            Err(error) => Compilation::None(error.to_string()),
        };
        Ok((architecture, compiled))
    }
}

impl Attempt {
    /// The record with a row that has no figures but the compiler's.
    fn without_figures(&self, outcome: Outcome) -> Run {
        let mut run = self.run.clone();
        run.rungs = vec![self.rung.clone()];
        run.collect_sources(&[]);
        let mut row = Measurement::without_samples(&*self.rung.id, self.problem.clone(), outcome);
        if let Compilation::Code(stats) = &self.compiled {
            row.kernels = vec![(**stats).clone()];
        }
        run.measurements = vec![row];
        run
    }
}

/// Whether a rung is somebody's own.
pub(super) fn is_live(rung: &Rung) -> bool {
    base(&rung.id) != rung.id
}
