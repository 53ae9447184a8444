//! Fused linear regression: y = w x + b by batch gradient descent.

mod cpu;
mod cuda;
pub(crate) mod data;
pub(crate) mod reference;

use crate::{Error, Event, Experiment, Lab, Result};
use cpu::{Descent, Threads};
use cuda::{Descender, Points, Settings};
use data::DataSet;
use reference::{Reference, Statistics};
use std::collections::BTreeMap;
use warpbook_device::{Bench, Compiler, CudaDevice, Device, Samples};
use warpbook_record::regression::{
    INITIAL, LOG_EVERY, MAX_FEATURES, MULTIVARIATE_RUNG, STANDARD_FEATURES, STANDARD_POINTS, SWEEP_POINTS, rungs,
    traffic,
};
use warpbook_record::{
    Check, DeviceKind, Dtype, KernelStats, LossPoint, Measurement, Outcome, Problem, Run, Rung, Runner, SCHEMA, Span,
    SpanGroup, Tolerance, TrainLog, kernels, nearest,
};

/// The most epochs: each is two nodes of a graph.
const MAX_EPOCHS: u64 = 10_000;
/// The most points, whatever the memory.
const MAX_POINTS: u64 = 1 << 40;

/// The experiment, with its settings; the defaults are those of its published record.
#[derive(Debug, Clone, PartialEq)]
pub struct Regression {
    points: Vec<u64>,
    features: u64,
    also: Vec<(u64, u64)>,
    epochs: u64,
    learning_rate: f32,
    noise: f32,
    seed: u64,
    rungs: Option<Vec<String>>,
    tile: Option<String>,
    parts: bool,
}

impl Default for Regression {
    fn default() -> Self {
        Self {
            points: vec![STANDARD_POINTS],
            features: 1,
            also: Vec::new(),
            epochs: 200,
            learning_rate: 0.01,
            noise: 0.1,
            seed: 1,
            rungs: None,
            tile: None,
            parts: true,
        }
    }
}

impl Regression {
    /// The defaults: 5 M points, 200 epochs, learning rate 0.01, noise 0.1, every rung.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The sizes of the quick suite: seconds on a GPU, well under a minute on two cores.
    #[must_use]
    pub fn quick() -> Self {
        Self::default().points([100_000, 500_000, 1_000_000, 5_000_000])
    }

    /// The sizes of the published sweep: 100 k to 200 M points with one feature, and 5 M points with 16.
    #[must_use]
    pub fn sweep() -> Self {
        Self::default().points(SWEEP_POINTS).also(STANDARD_POINTS, STANDARD_FEATURES)
    }

    /// Points of each data set, test points included: at least 2.
    #[must_use]
    pub fn points(mut self, points: impl IntoIterator<Item = u64>) -> Self {
        self.points = points.into_iter().collect();
        self
    }

    /// Numbers that each point has beside its y, and so weights beside b: 1 to 256.
    #[must_use]
    pub fn features(mut self, features: u64) -> Self {
        self.features = features;
        self
    }

    /// One more data set, with as many features as it likes.
    #[must_use]
    pub fn also(mut self, points: u64, features: u64) -> Self {
        self.also.push((points, features));
        self
    }

    /// Points and features of each data set.
    fn sizes(&self) -> Vec<(u64, u64)> {
        self.points.iter().map(|p| (*p, self.features)).chain(self.also.iter().copied()).collect()
    }

    /// Passes over the training points: 1 to 10,000.
    #[must_use]
    pub fn epochs(mut self, epochs: u64) -> Self {
        self.epochs = epochs;
        self
    }

    /// Step width of the descent, above 0.
    #[must_use]
    pub fn learning_rate(mut self, learning_rate: f32) -> Self {
        self.learning_rate = learning_rate;
        self
    }

    /// Standard deviation of the noise on y, from 0.
    #[must_use]
    pub fn noise(mut self, noise: f32) -> Self {
        self.noise = noise;
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

    /// Another of the tiles that a rung's row permits, by id.
    #[must_use]
    pub fn tile(mut self, id: impl Into<String>) -> Self {
        self.tile = Some(id.into());
        self
    }

    /// Whether the parts of an epoch are timed apart as well.
    #[must_use]
    pub fn parts(mut self, parts: bool) -> Self {
        self.parts = parts;
        self
    }

    /// The command that repeats it on a device.
    #[must_use]
    pub fn command(&self, device: &str) -> String {
        let points: Vec<String> = self.points.iter().map(u64::to_string).collect();
        let mut command = format!(
            "warpbook run regression --points {} --epochs {} --lr {} --noise {} --seed {} --device {device}",
            points.join(","),
            self.epochs,
            self.learning_rate,
            self.noise,
            self.seed
        );
        if self.features != 1 {
            command += &format!(" --features {}", self.features);
        }
        for (points, features) in &self.also {
            command += &format!(" --also {points}x{features}");
        }
        if let Some(rungs) = &self.rungs {
            command += &format!(" --rungs {}", rungs.join(","));
        }
        if let Some(tile) = &self.tile {
            command += &format!(" --tile {tile}");
        }
        if !self.parts {
            command += " --no-parts";
        }
        command
    }

    fn problem(&self, (points, features): (u64, u64)) -> Problem {
        Problem::Regression {
            points,
            train_points: data::train_points(points),
            features,
            epochs: self.epochs,
            learning_rate: decimal(self.learning_rate),
            noise: decimal(self.noise),
            seed: self.seed,
            dtype: Dtype::F32,
        }
    }

    /// Looks at the settings before anything is allocated.
    fn validate(&self, lab: &Lab) -> Result<Vec<Rung>> {
        let setting = |text: String| Err(Error::Setting(text));
        let sizes = self.sizes();
        if sizes.is_empty() {
            return setting("No size was given. Name at least one number of points, as in --points 5000000.".into());
        }
        for &(points, features) in &sizes {
            if features == 0 || features > MAX_FEATURES {
                return setting(format!("{features} features: choose from 1 to {MAX_FEATURES}."));
            }
            if points < 2 {
                return setting(format!(
                    "{points} points are too few: 80 % are trained on and the rest tested, so 2 are the least."
                ));
            }
            if points > MAX_POINTS {
                return setting(format!("{points} points are too many: the most is {MAX_POINTS} (2^40)."));
            }
            self.fits(lab, points, features)?;
        }
        if self.epochs == 0 || self.epochs > MAX_EPOCHS {
            return setting(format!("{} epochs: choose from 1 to {MAX_EPOCHS}.", self.epochs));
        }
        if !(self.learning_rate > 0.0 && self.learning_rate.is_finite()) {
            return setting(format!(
                "A learning rate of {} does not descend: choose a number above 0, as 0.01.",
                self.learning_rate
            ));
        }
        if !(self.noise >= 0.0 && self.noise.is_finite()) {
            return setting(format!("A noise of {} is no standard deviation: choose a number from 0 up.", self.noise));
        }
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

    /// An error unless the points fit into the memory of the device, and of the host for the reference.
    fn fits(&self, lab: &Lab, points: u64, features: u64) -> Result<()> {
        let bytes = points.saturating_mul(4 * (features + 1));
        if let Some(device) = lab.device().cuda() {
            // All points; pred and err of the training points for the unfused rung.
            let intermediate = if features == 1 { data::train_points(points) * 8 } else { 0 };
            device.ensure_free(format!("A regression of {points} points"), bytes.saturating_add(intermediate))?;
        }
        let host = lab.host_memory_bytes();
        if host > 0 && bytes > host / 4 * 3 {
            return Err(Error::Device(warpbook_device::Error::OutOfMemory {
                what: format!("A regression of {points} points (its reference is computed on the processor)"),
                needed: bytes,
                free: host / 4 * 3,
                total: host,
            }));
        }
        Ok(())
    }
}

/// The points of one problem, and the descent that every rung is held against.
struct Prepared {
    problem: Problem,
    host: DataSet,
    device: Option<Points>,
    train: Statistics,
    test: Statistics,
    reference: Reference,
}

impl Experiment for Regression {
    fn name(&self) -> &'static str {
        "regression"
    }

    fn problems(&self) -> Vec<Problem> {
        self.sizes().into_iter().map(|s| self.problem(s)).collect()
    }

    fn rungs(&self) -> Vec<Rung> {
        let chosen = |r: &Rung| self.rungs.as_ref().is_none_or(|w| w.iter().any(|w| *w == r.id));
        rungs().into_iter().filter(chosen).collect()
    }

    fn run(&self, lab: &Lab) -> Result<Run> {
        let rungs = self.validate(lab)?;
        let on_gpu = lab.device().info().kind == DeviceKind::Cuda;
        let device_name = lab.device().info().selector();
        let one = "x evenly spaced on [0, 10) in shuffled order, y = 3 x + 2 + Gaussian noise (Philox)";
        let several = "several features: standard Gaussian x, y = sum of w x + 2 + Gaussian noise (Philox)";
        let has = |several: bool| self.sizes().iter().any(|(_, features)| (*features > 1) == several);
        let inputs = match (has(false), has(true)) {
            (true, true) => format!("{one}; {several}"),
            (_, true) => several.to_owned(),
            _ => one.to_owned(),
        };
        lab.tell(&Event::Planned { measurements: self.sizes().len() * rungs.len() });
        lab.tell(&Event::Preparing("measuring the ceilings of the device"));
        let mut notes = Vec::new();
        let peaks = lab.peaks().unwrap_or_else(|e| {
            notes.push(format!("The ceilings could not be measured: {e}"));
            warpbook_record::Peaks::default()
        });
        let mut run = Run {
            schema: SCHEMA,
            experiment: self.name().into(),
            title: "Fused linear regression".into(),
            created: humantime::format_rfc3339_seconds(std::time::SystemTime::now()).to_string(),
            command: self.command(&device_name),
            environment: lab.environment(),
            policy: lab.bench().policy(on_gpu, inputs),
            peaks,
            rungs,
            sources: BTreeMap::new(),
            measurements: Vec::new(),
            train_logs: Vec::new(),
            spans: Vec::new(),
            notes,
        };
        run.collect_sources(kernels::HEADERS);
        let mut lost: Option<String> = None;
        for problem in self.problems() {
            self.run_problem(lab, &problem, &mut run, &mut lost);
        }
        // The clocks were watched while it ran; the rest of the environment has not changed.
        run.environment.clocks = lab.watch().report();
        if lab.bench().cancel.is_cancelled() {
            let (measured, ..) = run.counts();
            run.notes.push(format!("Interrupted after {measured} of {} measurements.", run.measurements.len()));
        }
        Ok(run)
    }
}

impl Regression {
    /// Runs every rung at one size; what goes wrong becomes a row. `lost` says why the GPU cannot be used any more.
    fn run_problem(&self, lab: &Lab, problem: &Problem, run: &mut Run, lost: &mut Option<String>) {
        let rungs = run.rungs.clone();
        let prepared =
            if lab.bench().cancel.is_cancelled() { Err("interrupted".to_owned()) } else { self.prepare(lab, problem) };
        for rung in &rungs {
            let skipped =
                |why: String| Measurement::without_samples(&*rung.id, problem.clone(), Outcome::Skipped { why });
            let measurement = if let Some(why) = unsuited(rung, problem) {
                skipped(why)
            } else if let Some(why) = lab.obstacle(rung) {
                Measurement { kernels: compiled_stats(rung), ..skipped(why) }
            } else if lab.bench().cancel.is_cancelled() {
                skipped("interrupted before it began".into())
            } else if let Some(why) = lost.as_ref().filter(|_| !rung.kernels().is_empty()) {
                skipped(why.clone())
            } else {
                lab.tell(&Event::Started { rung, problem });
                match &prepared {
                    Err(error) => Measurement::without_samples(
                        &*rung.id,
                        problem.clone(),
                        Outcome::Failed { error: error.clone() },
                    ),
                    Ok(prepared) => match self.measure(lab, rung, prepared, run) {
                        Ok(measurement) => measurement,
                        Err(Error::Device(warpbook_device::Error::Cancelled)) => skipped("interrupted".into()),
                        Err(error) => {
                            if let Error::Device(e) = &error
                                && e.is_sticky()
                            {
                                *lost = Some(format!("not run: {} had failed and ended the CUDA context", rung.id));
                            }
                            let error = error.to_string();
                            Measurement::without_samples(&*rung.id, problem.clone(), Outcome::Failed { error })
                        }
                    },
                }
            };
            run.measurements.push(measurement);
            if let Some(measurement) = run.measurements.last() {
                lab.tell(&Event::Finished { measurement, run });
            }
        }
        if let (Ok(prepared), true, Some(device), None) =
            (&prepared, self.wants_parts(problem), lab.device().cuda(), &lost)
            && !lab.bench().cancel.is_cancelled()
        {
            lab.tell(&Event::Preparing("timing the parts of an epoch"));
            match self.time_parts(lab, device, &rungs, prepared) {
                Ok(spans) => run.spans.extend(spans),
                Err(Error::Device(warpbook_device::Error::Cancelled)) => {}
                Err(error) => run.notes.push(format!("The parts of an epoch could not be timed: {error}")),
            }
        }
    }

    /// Parts are timed at the standard size, or at the only one.
    fn wants_parts(&self, problem: &Problem) -> bool {
        self.parts && problem.features() == 1 && (self.sizes().len() == 1 || problem.size() == STANDARD_POINTS)
    }

    fn prepare(&self, lab: &Lab, problem: &Problem) -> Result<Prepared, String> {
        let (points, features) = (problem.size(), problem.features());
        lab.tell(&Event::Preparing(&format!("drawing {} points and the reference", problem.short_label())));
        let device = match lab.device() {
            Device::Cuda(device) => {
                Some(Points::draw(device, points, features, self.noise, self.seed).map_err(|e| e.to_string())?)
            }
            Device::Cpu(_) => None,
        };
        // The reference is of what the kernels will read, not of what they should have been given.
        let host = match &device {
            Some(points) => points.download().map_err(|e| e.to_string())?,
            None => DataSet::draw(points, features, self.noise, self.seed),
        };
        let of = |(x, y): (Vec<&[f32]>, &[f32])| Statistics::of((&x, y));
        let (train, test) = (of(host.training()), of(host.test()));
        let start: Vec<f64> = initial(features).iter().map(|w| f64::from(*w)).collect();
        let reference = train.descend(&start, f64::from(self.learning_rate), self.epochs, LOG_EVERY);
        Ok(Prepared { problem: problem.clone(), host, device, train, test, reference })
    }

    fn measure(&self, lab: &Lab, rung: &Rung, prepared: &Prepared, run: &mut Run) -> Result<Measurement> {
        let mut m = Measurement::without_samples(&*rung.id, prepared.problem.clone(), Outcome::Measured);
        let (first, last, samples) = match (&rung.runner, lab.device().cuda(), &prepared.device) {
            (Runner::Cpu(threads), ..) => self.measure_cpu(lab.bench(), &**threads == "1 thread", prepared)?,
            (Runner::Kernels { .. }, Some(device), Some(points)) => {
                let descender = Descender::new(device, points, rung, &self.settings(&prepared.problem))?;
                m.choice = descender.choice();
                let l2_bytes = device.info().l2_bytes;
                let (placement, under_way) = (descender.placement(), descender.under_way());
                (m.traffic, m.flops) = traffic(&rung.id, &prepared.problem, l2_bytes, placement, under_way);
                m.kernels = descender.stats();
                m.tile = Some(descender.tile());
                // Correct, then timed: a rung that is wrong is not worth its time.
                let first = descender.once()?;
                let samples = if self.check(prepared, &first).passed {
                    descender.time(device, lab.bench(), lab.watch())?
                } else {
                    Samples::default()
                };
                let last = if samples.us.is_empty() { first.clone() } else { descender.result()? };
                (first, last, samples)
            }
            _ => return Err(warpbook_device::Error::NeedsCuda("This rung").into()),
        };
        let check = self.check(prepared, &first).worse(self.check(prepared, &last));
        let log = train_log(rung, prepared, &last);
        if log.diverged() {
            let at = log.losses.iter().find(|p| !p.loss.is_finite()).map_or(self.epochs, |p| p.epoch);
            m.outcome = Outcome::Failed {
                error: format!(
                    "the descent diverged: by epoch {at} the loss is no longer a finite number. A smaller learning rate than {} may help.",
                    self.learning_rate
                ),
            };
        } else if !check.passed {
            m.outcome = Outcome::Failed {
                error: format!(
                    "the result is off the reference by {:.1e}, more than the tolerance of {:.1e}",
                    check.max_rel_error, check.tolerance
                ),
            };
        }
        m.check = Some(check);
        m.set_samples(samples.us, samples.wall_us);
        run.train_logs.push(log);
        Ok(m)
    }

    fn settings(&self, problem: &Problem) -> Settings<'_> {
        Settings {
            tile: self.tile.as_deref(),
            start: initial(problem.features()),
            epochs: self.epochs,
            learning_rate: self.learning_rate,
        }
    }

    fn measure_cpu(&self, bench: &Bench, one: bool, prepared: &Prepared) -> Result<(Descent, Descent, Samples)> {
        let threads = if one { Threads::One } else { Threads::All };
        let ((x, y), start) = (prepared.host.training(), initial(prepared.problem.features()));
        let descend = || cpu::descend((&x, y), &start, self.learning_rate, self.epochs, LOG_EVERY, threads);
        // The first repetition is the one that is checked before the rest are timed; a long one is not done twice for it.
        let (mut first, mut last) = (None, Descent::default());
        let samples = bench.cpu(|| {
            last = descend();
            if first.is_none() {
                first = Some(last.clone());
            }
            Ok(())
        })?;
        Ok((first.unwrap_or_default(), last, samples))
    }

    fn check(&self, prepared: &Prepared, got: &Descent) -> Check {
        let want = &prepared.reference;
        let mut pairs: Vec<(f64, f64)> =
            got.weights.iter().map(|w| f64::from(*w)).zip(want.weights.iter().copied()).collect();
        pairs.extend(got.losses.iter().map(|l| f64::from(*l)).zip(want.losses.iter().copied()));
        let Tolerance(tolerance) = Tolerance::descent(Dtype::F32, prepared.train.n(), self.epochs);
        let mut check = Check::compare(
            "the same descent in f64 on the processor: all weights and the logged losses",
            &pairs,
            1.0,
            tolerance,
        );
        check.passed &= got.losses.len() == want.losses.len() && got.weights.len() == want.weights.len();
        check
    }

    fn time_parts(&self, lab: &Lab, device: &CudaDevice, rungs: &[Rung], prepared: &Prepared) -> Result<Vec<Span>> {
        let Some(points) = &prepared.device else { return Ok(Vec::new()) };
        let mut spans = Vec::new();
        for rung in rungs.iter().filter(|r| ["01_unfused", "02_fused"].contains(&&*r.id)) {
            let mut descender = Descender::new(device, points, rung, &self.settings(&prepared.problem))?;
            let mut push = |group, timed: Vec<(String, Samples)>| {
                spans.extend(timed.into_iter().map(|(name, samples)| Span {
                    rung: rung.id.to_string(),
                    problem: prepared.problem.clone(),
                    group,
                    name,
                    samples_us: samples.us,
                }));
            };
            push(SpanGroup::Operation, descender.time_operations(device, lab.bench())?);
            if rung.kernel("pass").is_some() {
                push(SpanGroup::Ablation, descender.time_ablations(device, lab.bench())?);
            }
        }
        Ok(spans)
    }
}

/// The weights before the first epoch: one a feature, then b.
fn initial(features: u64) -> Vec<f32> {
    let mut weights = vec![INITIAL.0; features as usize];
    weights.push(INITIAL.1);
    weights
}

/// Why a rung does not take a problem.
fn unsuited(rung: &Rung, problem: &Problem) -> Option<String> {
    let takes_several = rung.id == MULTIVARIATE_RUNG || matches!(rung.runner, Runner::Cpu(_));
    (problem.features() > 1 && !takes_several)
        .then(|| format!("it takes points of one feature; {MULTIVARIATE_RUNG} takes several"))
}

/// The number that its shortest decimal form says: 0.01 and not 0.009999999776.
fn decimal(v: f32) -> f64 {
    v.to_string().parse().unwrap_or_else(|_| f64::from(v))
}

fn train_log(rung: &Rung, prepared: &Prepared, got: &Descent) -> TrainLog {
    let weights: Vec<f64> = got.weights.iter().map(|w| f64::from(*w)).collect();
    let name = |i: usize| match (i + 1 == weights.len(), weights.len()) {
        (true, _) => "b".to_owned(),
        (_, 2) => "w".to_owned(),
        _ => format!("w{i}"),
    };
    TrainLog {
        rung: rung.id.to_string(),
        problem: prepared.problem.clone(),
        losses: (1..)
            .zip(&got.losses)
            .map(|(i, loss)| LossPoint { epoch: i * LOG_EVERY, loss: f64::from(*loss) })
            .collect(),
        parameters: weights.iter().enumerate().map(|(i, w)| (name(i), *w)).collect(),
        train_loss: prepared.train.loss(&weights),
        test_loss: prepared.test.loss(&weights),
    }
}

/// Registers and spills of a rung that cannot run here, for Hopper; nothing where there is no NVRTC.
pub(crate) fn compiled_stats(rung: &Rung) -> Vec<KernelStats> {
    let Ok(compiler) = Compiler::new(None) else { return Vec::new() };
    let architectures = rung.requires.architectures();
    let Some(architecture) = architectures.iter().find(|a| **a == "sm_90").or(architectures.first()) else {
        return Vec::new();
    };
    let stats = |spec: &warpbook_record::KernelSpec| {
        let compiled = compiler.compile(spec, spec.tiles.first()?, architecture).ok()?;
        compiled.stats_of(&spec.entry).cloned()
    };
    rung.kernels().iter().filter_map(stats).collect()
}
