//! A learner's own kernel in place of a rung's kernel: compiled, checked, timed together with the ladder, and stored
//! with its source.

mod file;
mod lanes;
mod product;
mod worker;

pub use worker::Request;

use crate::exercise::code as code_of;
use crate::experiment::{Plan, Prepared, tile_without_trials};
use crate::settings::Preset;
use crate::{Error, Event, Experiment, Lab, Result, driver};
use serde::{Deserialize, Serialize};
use warpbook_charts::highlight::without_comments;
use warpbook_device::{CompileError, Compiler, CudaDevice};
use warpbook_gemm::OWN_KERNEL_LIMIT_S;
use warpbook_kernels::matmul;
use warpbook_record::{
    Define, Dtype, Header, KernelSpec, KernelStats, LIVE, Measurement, Outcome, Problem, Requires, Run, Rung, Runner,
    Tile, nearest,
};

/// Edge length of the cubic matrix product at which a learner's kernel is timed.
const EDGE: u64 = 2048;
/// Target architecture for kernels that can run neither on a GPU nor in the emulator.
const WITHOUT_GPU: &str = "sm_90";

/// A learner's kernel: a rung whose first file is replaced, with the same arguments and launch.
///
/// The source defines the rung's kernel with the same parameters, and may include whatever the rung's source includes.
/// Tile sizes are passed as macros, and the launch follows them: for a matrix product, the grid has tiles of `BM` x
/// `BN`, with `THREADS` threads per block.
///
/// ```
/// use warpbook_lab::LiveKernel;
///
/// let mine = LiveKernel::for_rung("02_coalesced")?.named("wider").size("BN", 64).size("BM", 4);
/// assert!(mine.text().contains("__global__"));
/// # Ok::<(), warpbook_lab::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LiveKernel {
    base: Rung,
    name: String,
    source: String,
    /// The author's headers that the source includes.
    headers: Vec<Header>,
    tile: Tile,
    shape: (u64, u64, u64),
    dtype: Dtype,
    against: Vec<String>,
    limit_s: f64,
}

impl LiveKernel {
    /// Creates a live kernel from an unchanged rung of the matrix product with its first tile, at 2048 x 2048 x 2048,
    /// in fp32 if the rung supports it, else in bf16.
    ///
    /// # Errors
    /// If there is no such rung, or it has no kernel.
    pub fn for_rung(rung: &str) -> Result<Self> {
        let known = matmul::rows();
        let with_kernels = || known.iter().filter(|r| r.kernel().is_some());
        let Some(found) = with_kernels().find(|r| r.rung.id == rung) else {
            let ids = with_kernels().map(|r| &*r.rung.id);
            let nearest = nearest(rung, ids).into_iter().map(str::to_owned).collect();
            return Err(Error::UnknownRung { name: rung.into(), nearest });
        };
        let fp32 = found.capabilities().is_some_and(|c| c.takes(Dtype::F32));
        let libraries = known.iter().find(|r| r.rung.is_library()).map(|r| r.rung.id.to_string());
        let live = Self::variant(&found.rung)?.dtype(if fp32 { Dtype::F32 } else { Dtype::Bf16 });
        Ok(Self { against: live.against.iter().cloned().chain(libraries).collect(), ..live })
    }

    /// Creates a live kernel from an unchanged rung of any experiment, with the first tile of its first kernel. It is
    /// timed together with the rung itself; see [`Lab::attempt_at`].
    ///
    /// # Errors
    /// If the rung has no kernel.
    pub fn variant(rung: &Rung) -> Result<Self> {
        let no_kernel = || Error::Setting(format!("{} has no kernel that could be replaced.", rung.id));
        let spec = rung.kernels().first().ok_or_else(no_kernel)?;
        Ok(Self {
            base: rung.clone(),
            name: "mine".into(),
            source: spec.source.to_string(),
            headers: spec.headers.clone(),
            tile: spec.tiles.first().cloned().ok_or_else(no_kernel)?,
            shape: (EDGE, EDGE, EDGE),
            dtype: Dtype::F32,
            against: vec![rung.id.to_string()],
            limit_s: OWN_KERNEL_LIMIT_S,
        })
    }

    /// Sets the name, made of letters, digits, `-` and `_`; the default is `mine`.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Replaces the source, which is CUDA C++. [`LiveKernel::file`] takes a file, with headers in the same folder.
    #[must_use]
    pub fn source(mut self, text: impl Into<String>) -> Self {
        (self.source, self.headers) = (text.into(), Vec::new());
        self
    }

    /// Replaces one passage of the source.
    ///
    /// # Errors
    /// If the source does not contain the passage exactly once.
    pub fn replacing(mut self, passage: &str, by: &str) -> Result<Self> {
        match self.source.matches(passage).count() {
            1 => {
                self.source = self.source.replacen(passage, by, 1);
                Ok(self)
            }
            0 => Err(Error::Setting(format!("The source of {} has no passage `{passage}`.", self.base.id))),
            n => Err(Error::Setting(format!(
                "The source of {} has `{passage}` {n} times. Quote more of what is around it.",
                self.base.id
            ))),
        }
    }

    /// Selects another tile of the rung by its id.
    ///
    /// # Errors
    /// If the rung has no such tile.
    pub fn tile(mut self, id: &str) -> Result<Self> {
        let tiles = self.base.kernels().first().map(|k| &*k.tiles).unwrap_or_default();
        let known: Vec<&str> = tiles.iter().map(|t| &*t.id).collect();
        match tiles.iter().find(|t| t.id == id) {
            Some(tile) => {
                self.tile = tile.clone();
                Ok(self)
            }
            None => Err(Error::Setting(format!("{} has no tile `{id}`. It has {}.", self.base.id, known.join(", ")))),
        }
    }

    /// Sets or adds a size of the tile, such as `BM`, which the source gets as a macro. The grid follows `BM` and `BN`,
    /// the block has `THREADS` threads, and `DYNAMIC_SHARED_BYTES` is the size of the dynamic shared memory.
    #[must_use]
    pub fn size(mut self, name: impl Into<String>, value: i64) -> Self {
        self.tile.set(Define::new(name.into(), value));
        self
    }

    /// Sets the sizes m, n and k of the timed matrix product.
    #[must_use]
    pub fn shape(mut self, m: u64, n: u64, k: u64) -> Self {
        self.shape = (m, n, k);
        self
    }

    /// Sets the data type of the matrices of a product.
    #[must_use]
    pub fn dtype(mut self, dtype: Dtype) -> Self {
        self.dtype = dtype;
        self
    }

    /// Sets the rungs that are timed together with the kernel; by default its own rung and cuBLAS.
    #[must_use]
    pub fn against<S: Into<String>>(mut self, rungs: impl IntoIterator<Item = S>) -> Self {
        self.against = rungs.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the seconds after which the kernel is assumed to hang and is stopped; 5 by default.
    #[must_use]
    pub fn time_limit(mut self, seconds: f64) -> Self {
        self.limit_s = seconds;
        self
    }

    /// Returns the current source in CUDA C++.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.source
    }

    /// Returns the id of the kernel's rung: `02_coalesced+mine` is a variant of `02_coalesced`.
    #[must_use]
    pub fn id(&self) -> String {
        format!("{}+{}", self.base.id, self.name)
    }

    /// Returns the kernel as a rung, whose file is `live/NAME.cu`.
    #[must_use]
    pub fn rung(&self) -> Rung {
        let replaced = self.base.kernels().first().map(|k| k.file.clone());
        let own = |(i, spec): (usize, &KernelSpec)| match replaced.as_ref() == Some(&spec.file) {
            true => KernelSpec {
                file: format!("{LIVE}{}.cu", self.name).into(),
                source: self.source.clone().into(),
                headers: self.headers.clone(),
                tiles: if i == 0 { vec![self.tile.clone()] } else { spec.tiles.clone() },
                ..spec.clone()
            },
            false => spec.clone(),
        };
        let runner = match &self.base.runner {
            Runner::Kernels { specs, schedule } => {
                Runner::Kernels { specs: specs.iter().enumerate().map(own).collect(), schedule: *schedule }
            }
            other => other.clone(),
        };
        Rung {
            id: self.id().into(),
            title: self.name.clone().into(),
            idea: format!("A learner's kernel in place of {}.", self.base.title).into(),
            runner,
            variant_of: Some(self.base.id.clone()),
            ..self.base.clone()
        }
    }

    /// Returns the sizes m, n and k of the timed matrix product.
    #[must_use]
    pub fn sides(&self) -> (u64, u64, u64) {
        self.shape
    }

    /// Returns the data type of the matrices of the timed product.
    #[must_use]
    pub fn element_type(&self) -> Dtype {
        self.dtype
    }

    /// Returns the rung that the kernel replaces.
    #[must_use]
    pub fn base(&self) -> &Rung {
        &self.base
    }

    /// Returns true if the tile sizes are unchanged: they are the sizes of the rung's first tile or of `usual`, the
    /// tile that the rung uses for the problem.
    fn has_own_sizes(&self, usual: Option<&str>) -> bool {
        let Some(spec) = self.base.kernels().first() else { return false };
        let mut own = spec.tiles.iter().take(1).chain(spec.tiles.iter().filter(|t| usual == Some(&t.id)));
        own.any(|t| t.defines == self.tile.defines)
    }

    /// Returns true if the source equals the source of the rung, apart from comments and white space.
    fn has_own_text(&self) -> bool {
        let code = |source: &str| without_comments(source).split_whitespace().collect::<String>();
        self.base.kernels().first().is_some_and(|spec| code(&self.source) == code(&spec.source))
    }

    fn validate(&self) -> Result<()> {
        let setting = |text: String| Err(Error::Setting(text));
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if self.name.is_empty() || self.name.len() > 40 || !self.name.chars().all(fits) {
            return setting(format!(
                "`{}` is not a name for a kernel: take up to 40 letters from a to z, digits, - and _.",
                self.name
            ));
        }
        if !(self.limit_s > 0.0 && self.limit_s <= 600.0) {
            return setting(format!("A time limit of {} s: choose one above 0 and up to 600.", self.limit_s));
        }
        let sensible = |name: &str| self.tile.get(name).is_some_and(|v| v > 0 && v <= 1 << 20);
        let of_base = self.base.kernels().first().and_then(|k| k.tiles.first());
        let launched = ["BM", "BN", "THREADS"].into_iter().filter(|n| of_base.is_some_and(|t| t.get(n).is_some()));
        if let Some(missing) = launched.into_iter().find(|n| !sensible(n)) {
            return setting(format!(
                "The size {missing} must be a number from 1 to 1048576, since the launch depends on it."
            ));
        }
        Ok(())
    }
}

/// Maximum number of FLOPs and of bytes of a problem in the emulator, which takes seconds at these limits.
const MOST_EMULATED_FLOPS: u64 = 1 << 27;
const MOST_EMULATED_BYTES: u64 = 1 << 27;

/// An experiment with only one problem, with a learner's kernel as an additional rung, and with the rungs that are
/// timed together with it.
struct WithVariant<'e> {
    inner: &'e dyn Experiment,
    live: &'e LiveKernel,
    problem: &'e Problem,
}

impl Experiment for WithVariant<'_> {
    fn plan(&self, lab: Option<&Lab>) -> Result<Plan> {
        let Plan { name, title, descriptor, inputs, command, rungs: known, headers, .. } = self.inner.plan(lab)?;
        if let Some(name) = self.live.against.iter().find(|name| !known.iter().any(|r| r.id == **name)) {
            let nearest = nearest(name, known.iter().map(|r| &*r.id)).into_iter().map(str::to_owned).collect();
            return Err(Error::UnknownRung { name: name.clone(), nearest });
        }
        self.live.validate()?;
        let reference = |r: &Rung| self.live.against.iter().any(|a| *a == r.id);
        let rungs = known.into_iter().filter(reference).chain([self.live.rung()]).collect();
        // The record contains the kernel's source.
        let command = format!("{command} # and {}", self.live.id());
        let (problems, limit_s) = (vec![self.problem.clone()], Some(self.live.limit_s));
        let named = Plan { name, title, descriptor, inputs, command, ..Plan::default() };
        Ok(Plan { problems, rungs, headers, limit_s, ..named })
    }

    fn obstacle(&self, lab: &Lab, rung: &Rung, problem: &Problem, so_far: &Run) -> Option<String> {
        self.inner.obstacle(lab, rung, problem, so_far)
    }

    fn prepare<'a>(&'a self, lab: &'a Lab, problem: &Problem) -> Result<Box<dyn Prepared + 'a>> {
        self.inner.prepare(lab, problem)
    }
}

/// The result of trying a learner's kernel.
#[derive(Debug, Clone)]
pub struct Attempt {
    rung: Rung,
    problem: Problem,
    architecture: String,
    compiled: Compilation,
    unchanged: bool,
    /// The record of this attempt, with all measured rungs.
    pub run: Run,
}

/// The result of a compilation.
#[derive(Debug, Clone, PartialEq)]
pub enum Compilation {
    /// The code compiled, with these statistics of the assembler.
    Code(Box<KernelStats>),
    /// The kernel does not compile, with this error.
    Broken(Box<CompileError>),
    /// Nothing was compiled, for the reason in this sentence.
    None(String),
}

impl Attempt {
    /// Returns true if the kernel compiles.
    #[must_use]
    pub fn compiles(&self) -> bool {
        matches!(self.compiled, Compilation::Code(_))
    }

    /// Returns the kernel's rung.
    #[must_use]
    pub fn rung(&self) -> &Rung {
        &self.rung
    }

    /// Returns the problem of the attempt.
    #[must_use]
    pub fn problem(&self) -> &Problem {
        &self.problem
    }

    /// Returns the target architecture of the compilation, such as `sm_90a`.
    #[must_use]
    pub fn architecture(&self) -> &str {
        &self.architecture
    }

    /// Returns the result of the compilation.
    #[must_use]
    pub fn compiled(&self) -> &Compilation {
        &self.compiled
    }

    /// Returns `true` if nothing was tried because the kernel is unchanged: its tile sizes are the rung's, and its
    /// source equals the rung's apart from comments and white space, or the compiler generates the same code for both.
    #[must_use]
    pub fn is_unchanged(&self) -> bool {
        self.unchanged
    }

    /// Returns the row of the kernel in the record: measured, failed with the reason, or skipped with the reason. The
    /// row is skipped in the emulator, which measures no times.
    #[must_use]
    pub fn measurement(&self) -> Option<&Measurement> {
        self.run.measurement(&self.rung.id, &self.problem)
    }

    /// Returns `true` if the kernel ran, possibly in the emulator, and every element was right.
    #[must_use]
    pub fn is_right(&self) -> bool {
        self.measurement().is_some_and(|m| m.is_valid() || m.is_right_in_emulator())
    }

    /// Returns the reason for a failure; `None` unless the kernel failed.
    #[must_use]
    pub fn error(&self) -> Option<&str> {
        match &self.measurement()?.outcome {
            Outcome::Failed { error } => Some(error),
            _ => None,
        }
    }

    /// Returns the record of this attempt, with the kernel's source and the rungs that were timed with it.
    #[must_use]
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// Returns a copy of the ladder's record to which this kernel, its source and its measurements are added, so that
    /// the page shows them together.
    ///
    /// # Errors
    /// If the ladder was measured on another device.
    pub fn merged_into(&self, ladder: &Run) -> Result<Run> {
        let (theirs, ours) = (&ladder.environment.device, &self.run.environment.device);
        if self.measurement().is_some_and(|m| m.outcome == Outcome::Measured) && theirs.name != ours.name {
            return Err(Error::Setting(format!(
                "The ladder was measured on {}, this kernel on {}: their figures do not belong in one record. Measure both on the same device.",
                theirs.name, ours.name
            )));
        }
        let mut both = ladder.clone();
        both.rungs.retain(|r| r.id != self.rung.id);
        both.measurements.retain(|m| m.rung != self.rung.id);
        both.rungs.push(self.rung.clone());
        both.measurements.extend(self.measurement().cloned());
        driver::collect_sources(&mut both, &[]);
        Ok(both)
    }
}

impl Lab {
    /// Compiles a learner's kernel, tries it on a small problem that reveals mistakes, and times it at one of the
    /// experiment's problems together with the rungs that the kernel names. Errors of the kernel are reported in the
    /// attempt.
    ///
    /// If the program `warpbook` is found, the kernel runs in a separate process, so that an endless loop can be
    /// stopped and a crash does no other harm. The program is looked up in `WARPBOOK_WORKER`, in this workspace's build
    /// folder, and on the `PATH`. Without it, the kernel runs in this process; if it crashes or hangs, the process can
    /// no longer use the GPU, but records are kept. The same holds for an experiment that the command line does not
    /// know, such as one from a notebook.
    ///
    /// Without a GPU, the kernel runs in the emulator at [the experiment's small problem](Experiment::for_emulator),
    /// which tells whether it is right and why not, but gives no times.
    ///
    /// # Errors
    /// If a setting is out of range, or the device cannot be used at all.
    pub fn attempt_at(&self, experiment: &dyn Experiment, problem: &Problem, live: &LiveKernel) -> Result<Attempt> {
        if self.device().cuda().is_none() {
            return self.emulated()?.attempt_in_emulator(experiment, problem, live);
        }
        if self.is_emulated() {
            return self.attempt_in_emulator(experiment, problem, live);
        }
        self.attempt_with(experiment, problem, live)
    }

    /// Tries a kernel on a small problem, without other rungs, since nothing is timed.
    fn attempt_in_emulator(
        &self,
        experiment: &dyn Experiment,
        problem: &Problem,
        live: &LiveKernel,
    ) -> Result<Attempt> {
        // If a rung to time together with the kernel is unknown, this is an error, as on a GPU.
        WithVariant { inner: experiment, live, problem }.plan(None)?;
        let live = live.clone().against([""; 0]);
        let small = experiment.for_emulator();
        match small.as_ref().and_then(|small| Some((small, small.problems().into_iter().next()?))) {
            Some((small, problem)) => self.attempt_with(&**small, &problem, &live),
            None => self.attempt_with(experiment, problem, &live),
        }
    }

    fn attempt_with(&self, experiment: &dyn Experiment, problem: &Problem, live: &LiveKernel) -> Result<Attempt> {
        let with = WithVariant { inner: experiment, live, problem };
        let plan = with.plan(Some(self))?;
        let rung = live.rung();
        let no_kernel = || Error::Setting(format!("{} has no kernel.", rung.id));
        let spec = experiment.compiled(self, &rung, problem).ok_or_else(no_kernel)?;
        let (architecture, compiled) = self.compile_live(live, &rung, &spec);
        let run = driver::empty(self, &plan);
        let unchanged = live.has_own_sizes(tile_without_trials(experiment, self, &live.base, problem).as_deref())
            && (live.has_own_text() || self.is_same_code(experiment, problem, live, &spec, &architecture));
        let mut attempt = Attempt { rung, problem: problem.clone(), architecture, compiled, unchanged, run };
        attempt.run = match &attempt.compiled {
            Compilation::Broken(error) => attempt.without_figures(Outcome::Failed { error: error.to_string() }),
            Compilation::None(why) => attempt.without_figures(Outcome::Failed { error: why.clone() }),
            Compilation::Code(_) => match self.obstacle(&attempt.rung).or_else(|| self.too_much(problem)) {
                Some(why) => attempt.without_figures(Outcome::Skipped { why }),
                // The emulator cannot harm this process.
                None if self.is_emulated() => self.attempt_here(experiment, problem, live)?,
                None => match worker::run(self, experiment, problem, live)? {
                    worker::Isolated::Finished(run) => *run,
                    worker::Isolated::Failed(error) => attempt.without_figures(Outcome::Failed { error }),
                    worker::Isolated::Unavailable => self.attempt_here(experiment, problem, live)?,
                },
            },
        };
        Ok(attempt)
    }

    /// Returns true if the compiler generates the same PTX for a learner's kernel as for its rung, apart from line
    /// numbers.
    fn is_same_code(
        &self,
        experiment: &dyn Experiment,
        problem: &Problem,
        live: &LiveKernel,
        spec: &KernelSpec,
        architecture: &str,
    ) -> bool {
        let Ok(compiler) = self.device().cuda().map_or_else(|| Compiler::new(None), |d| d.compiler().cloned()) else {
            return false;
        };
        let virtual_architecture = architecture.replace("sm_", "compute_");
        let code = |spec: &KernelSpec| {
            compiler.compile_to_ptx(spec, &live.tile, &virtual_architecture).ok().map(|ptx| code_of(&ptx))
        };
        let own = experiment.compiled(self, &live.base, problem).and_then(|spec| code(&spec));
        own.is_some() && own == code(spec)
    }

    /// Returns the reason why a problem is too large for the emulator; `None` if it is small enough, or if the device
    /// is not the emulator.
    fn too_much(&self, problem: &Problem) -> Option<String> {
        let is_large = problem.flops > MOST_EMULATED_FLOPS || problem.bytes > MOST_EMULATED_BYTES;
        let why = || format!("{} is too much for the emulator: try it at a smaller problem", problem.label);
        (self.is_emulated() && is_large).then(why)
    }

    /// Runs the attempt in this process, even though the kernel may crash the process.
    fn attempt_here(&self, experiment: &dyn Experiment, problem: &Problem, live: &LiveKernel) -> Result<Run> {
        self.tell(&Event::Preparing("trying the kernel on small problems"));
        self.run(&WithVariant { inner: experiment, live, problem })
    }

    fn compile_live(&self, live: &LiveKernel, rung: &Rung, spec: &KernelSpec) -> (String, Compilation) {
        // Only some rungs can run on the emulated GPU; the others are only compiled.
        let fits =
            |device: &&CudaDevice| !device.is_emulated() || rung.requires.met_by(device.info().compute_capability);
        let architecture = match (&rung.requires, self.device().cuda().filter(fits)) {
            (_, Some(device)) => device.architecture_of(spec),
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
        let compiled = match compiler.and_then(|c| c.compile(spec, &live.tile, &architecture)) {
            Ok(code) => match (code.stats_of(&spec.entry), self.device().gpu()) {
                (None, _) => missing(),
                // The device computes how many blocks of the kernel can be resident.
                (Some(_), Some(device)) => device.kernel(spec, &live.tile).map_or_else(
                    |error| Compilation::None(error.to_string()),
                    |kernel| Compilation::Code(Box::new(kernel.stats().clone())),
                ),
                (Some(stats), None) => Compilation::Code(Box::new(stats.clone())),
            },
            Err(warpbook_device::Error::Compile(error)) => Compilation::Broken(error),
            Err(error) => Compilation::None(error.to_string()),
        };
        (architecture, compiled)
    }
}

impl Attempt {
    /// Returns a record with a row for the kernel that has only the compiler's statistics.
    fn without_figures(&self, outcome: Outcome) -> Run {
        let mut run = self.run.clone();
        run.rungs = vec![self.rung.clone()];
        driver::collect_sources(&mut run, &[]);
        let mut row = Measurement::without_samples(&*self.rung.id, self.problem.clone(), outcome);
        if let Compilation::Code(stats) = &self.compiled {
            row.kernels = vec![(**stats).clone()];
        }
        run.measurements = vec![row];
        run
    }
}
