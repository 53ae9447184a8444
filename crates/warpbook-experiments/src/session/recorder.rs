//! The record of a training run, which grows during the run.

use super::points::{Changes, Point, PointList};
use super::words;
use std::path::Path;
use std::time::{Duration, Instant};
use warpbook_lab::{Lab, Result, driver, write_record};
use warpbook_nn::train::{
    CudaOptions, Ended, Event, Place, Recipe, Samples, Score, StepOutcome, TrainError, Trainer, Way, ways,
};
use warpbook_record::{
    ChartKind, Course, Descriptor, DeviceKind, EpochPoint, LossPoint, MAX_POINTS, Right, Run, Rung, StepValue, TrainLog,
};

/// Shortest time between two writes of the record while the training runs.
const WRITE_EVERY: Duration = Duration::from_secs(5);

/// Sums over the steps of an epoch.
#[derive(Debug, Default)]
struct OfEpoch {
    loss: f64,
    steps: u64,
    correct: u64,
    samples: u64,
}

/// Builds the record of a training run from events of the trainer.
#[derive(Debug)]
pub(super) struct Recorder {
    run: Run,
    started: Instant,
    written: Instant,
    log_every: u64,
    /// The number of samples, the batch size, and whether the samples have labels.
    samples: u64,
    batch: u64,
    classified: bool,
    points: PointList,
    rates: Changes,
    scales: Changes,
    open: Point,
    of_epoch: OfEpoch,
}

/// The facts that are known when a record is created.
pub(super) struct Beginning<'a> {
    pub trainer: &'a Trainer,
    pub train: Samples<'a>,
    /// The user's description of the images.
    pub data_note: Option<String>,
    pub log_every: u64,
    pub command: String,
}

impl Recorder {
    pub fn new(lab: &Lab, b: &Beginning<'_>) -> Self {
        let recipe = b.trainer.recipe();
        let problem = words::problem(recipe, b.train, b.data_note.as_deref());
        let rung = rung(b.trainer.place(), recipe);
        let (classified, first_step) = (matches!(b.train, Samples::Images(_)), b.trainer.step());
        let mut recipe_words = words::recipe(recipe, &b.trainer.place().to_string());
        recipe_words.extend(b.trainer.ranks().map(|_| ("ranks".to_owned(), words::ranks(b.trainer))));
        let course = Course {
            recipe: recipe_words,
            data: match b.data_note.as_deref() {
                None => words::data_note(b.train),
                note => format!("{} ({})", words::data_note(b.train), words::data_label(b.train, note)),
            },
            first_step,
            steps: first_step,
            steps_per_epoch: (b.train.len().div_ceil(recipe.batch.max(1))) as u64,
            ..Course::default()
        };
        let log = TrainLog {
            rung: rung.id.to_string(),
            problem: problem.clone(),
            losses: Vec::new(),
            parameters: Default::default(),
            train_loss: f64::NAN,
            test_loss: f64::NAN,
            course: Some(Box::new(course)),
        };
        let on_gpu = lab.device().info().kind == DeviceKind::Cuda;
        let mut notes: Vec<String> = words::data_warning(b.train, b.data_note.as_deref()).into_iter().collect();
        if first_step > 0 {
            notes.push(format!("Gone on with after step {first_step}; what was before is in another record."));
        }
        notes.extend(b.trainer.not_compared().map(str::to_owned));
        let policy = lab.bench().policy(on_gpu, words::inputs(b.train));
        let mut run = Run {
            command: b.command.clone(),
            descriptor: descriptor(b.log_every, classified),
            problems: vec![problem.clone()],
            main_problem: Some(problem.id.clone()),
            rungs: vec![rung],
            train_logs: vec![log],
            notes,
            ..driver::begun(lab, "train", format!("Training of {}", recipe.name), policy)
        };
        driver::collect_sources(&mut run, &[]);
        Self {
            run,
            started: Instant::now(),
            written: Instant::now(),
            log_every: b.log_every.max(1),
            samples: b.train.len() as u64,
            batch: recipe.batch as u64,
            classified,
            points: PointList::new(MAX_POINTS),
            rates: Changes::new(MAX_POINTS),
            scales: Changes::new(MAX_POINTS),
            open: Point::default(),
            of_epoch: OfEpoch::default(),
        }
    }

    fn course(&mut self) -> Option<&mut Course> {
        self.run.train_logs.first_mut()?.course.as_deref_mut()
    }

    /// Starts the clock of the training.
    pub fn begin(&mut self) {
        self.started = Instant::now();
    }

    /// Adds an event from the trainer to the record. The clock starts again when the training is ready, so that the
    /// first plans of its products are not part of its time.
    pub fn hear(&mut self, event: &Event) {
        match *event {
            Event::Ready { seconds } => {
                if let Some(course) = self.course() {
                    *course.planning_s.get_or_insert_default() += seconds;
                }
                self.begin();
            }
            Event::Step { step, learning_rate, outcome, .. } => self.step(step, learning_rate, &outcome),
            Event::Batches { epoch, step, .. } => {
                let point = std::mem::take(&mut self.open);
                self.points.push(Point { epoch: u64::from(epoch), step, ..point });
            }
            Event::Epoch { epoch, step, seconds, test } | Event::OutOfTime { epoch, step, seconds, test } => {
                self.evaluated(u64::from(epoch), step, seconds, &test);
            }
            _ => {}
        }
    }

    fn step(&mut self, step: u64, rate: f64, outcome: &StepOutcome) {
        self.rates.push(step, rate);
        if let Some(scale) = outcome.loss_scale {
            self.scales.push(step, f64::from(scale));
        }
        self.open.loss += outcome.loss;
        self.open.steps += 1;
        if let Some(norm) = outcome.gradient_norm.filter(|n| n.is_finite() && !outcome.skipped) {
            self.open.norm += norm;
            self.open.norms += 1;
        }
        // The last batch of an epoch may be smaller.
        let begin = (step - 1) % self.samples.div_ceil(self.batch).max(1) * self.batch;
        self.of_epoch.loss += outcome.loss;
        self.of_epoch.steps += 1;
        self.of_epoch.correct += outcome.correct as u64;
        self.of_epoch.samples += self.batch.min(self.samples.saturating_sub(begin));
        if let Some(course) = self.course() {
            course.steps = step;
            if outcome.skipped {
                course.skipped_total += 1;
                if course.skipped_steps.len() < MAX_POINTS {
                    course.skipped_steps.push(step);
                }
            }
        }
    }

    fn evaluated(&mut self, epoch: u64, step: u64, seconds: f64, test: &Score) {
        let sums = std::mem::take(&mut self.of_epoch);
        let right = |correct, of| self.classified.then_some(Right { correct, of });
        let point = EpochPoint {
            epoch,
            step,
            seconds,
            train_loss: sums.loss / sums.steps as f64,
            test_loss: test.loss,
            train: right(sums.correct, sums.samples),
            test: right(test.correct as u64, test.of as u64),
        };
        if let Some(log) = self.run.train_logs.first_mut() {
            (log.train_loss, log.test_loss) = (point.train_loss, point.test_loss);
        }
        if let Some(course) = self.course() {
            course.epochs.push(point);
        }
    }

    /// Updates the record with the values logged so far.
    fn update(&mut self) {
        let log_every = self.log_every * self.points.lines[0];
        let total_s = self.started.elapsed().as_secs_f64();
        let (rates, scales) = (self.rates.all.clone(), self.scales.all.clone());
        let Some(log) = self.run.train_logs.first_mut() else { return };
        let loss = |p: &Point| LossPoint { epoch: p.epoch, step: Some(p.step), loss: p.loss / p.steps as f64 };
        log.losses = self.points.all.iter().map(loss).collect();
        let Some(course) = &mut log.course else { return };
        if let Some(last) = log.losses.last().filter(|_| course.epochs.is_empty()) {
            log.train_loss = last.loss;
        }
        let with_norm = self.points.all.iter().filter(|p| p.norms > 0);
        course.gradient_norms = with_norm.map(|p| StepValue { step: p.step, value: p.norm / p.norms as f64 }).collect();
        (course.learning_rates, course.loss_scales) = (rates, scales);
        (course.log_every, course.total_s) = (log_every, total_s);
    }

    /// Writes the current record, unless it was written recently.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn keep(&mut self, path: &Path) -> Result<()> {
        if self.written.elapsed() < WRITE_EVERY {
            return Ok(());
        }
        self.update();
        let written = write_record(&self.run, path);
        self.written = Instant::now();
        written.map(drop)
    }

    /// Completes and returns the record.
    pub fn end(mut self, trainer: &Trainer, ended: &std::result::Result<Ended, TrainError>) -> Run {
        self.update();
        if let Some(course) = self.course() {
            course.peak_allocated_bytes = Some(trainer.bytes()).filter(|bytes| *bytes > 0);
            course.peak_reserved_bytes = trainer.reserved_bytes();
        }
        let step = trainer.step();
        let last = trainer.recipe().total_steps(usize::try_from(self.samples).unwrap_or(usize::MAX));
        if let (Err(TrainError::NotFinite(_)), Some(log)) = (ended, self.run.train_logs.first_mut()) {
            let epoch = step / self.samples.div_ceil(self.batch).max(1) + 1;
            log.losses.push(LossPoint { epoch, step: Some(step + 1), loss: f64::NAN });
            log.train_loss = f64::NAN;
        }
        let words = match ended {
            Ok(Ended::Finished) => "finished".to_owned(),
            Ok(Ended::Stopped) => format!("stopped after step {step} of {last}"),
            Ok(Ended::OutOfTime) => format!("out of time after step {step} of {last}"),
            Err(error) => error.to_string(),
        };
        match ended {
            Ok(Ended::Finished) => {}
            Ok(Ended::Stopped) => self.run.notes.push(format!("The training was {words}.")),
            Ok(Ended::OutOfTime) => self.run.notes.push(format!("The training ran {words}.")),
            Err(error) => self.run.notes.push(error.to_string()),
        }
        if self.points.lines[0] > 1 {
            self.run.notes.push(format!(
                "There were more than {MAX_POINTS} logged losses: {} of them became one, their mean.",
                self.points.lines[0]
            ));
            self.run.descriptor = descriptor(self.log_every * self.points.lines[0], self.classified);
        }
        if self.rates.every[0] > 1 {
            self.run.notes.push(format!(
                "The learning rate changed more than {MAX_POINTS} times: every {}th change is kept.",
                self.rates.every[0]
            ));
        }
        if let Some(course) = self.course() {
            course.ended = words;
        }
        self.run
    }
}

/// Returns the descriptor of the record of a training run.
fn descriptor(log_every: u64, classified: bool) -> Descriptor {
    use ChartKind::{Accuracy, GradientNorm, LearningRate, Loss, LossScale};
    let mut charts = vec![Loss, Accuracy, LearningRate, LossScale, GradientNorm];
    charts.retain(|c| *c != Accuracy || classified);
    Descriptor {
        charts,
        item: if classified { "images".into() } else { "samples".into() },
        loss: match log_every {
            0 | 1 => "loss of the batch".into(),
            n => format!("mean loss of {n} batches"),
        },
        ..Descriptor::default()
    }
}

/// Returns the rung of the training with the kernels that the GPU runs. This is the ladder's rung with the same
/// options, if there is one.
pub(super) fn rung(place: &Place, recipe: &Recipe) -> Rung {
    match place {
        Place::Cuda(device, options) => rung_on(device.info().compute_capability, options, recipe),
        Place::Cpu => {
            Rung::cpu("cpu_all_threads", "CPU", "Training on the CPU in fp32, by all threads.", "all threads")
        }
    }
}

/// Returns the rung of a training run on a GPU with this compute capability.
fn rung_on(compute_capability: Option<(u32, u32)>, options: &CudaOptions, recipe: &Recipe) -> Rung {
    // Ignore options that do not change which kernels run: the loader, the scaler, methods that this GPU replaces, and
    // early launches that the GPU does not support.
    let options = &CudaOptions { last_block: options.has_last_blocks(recipe), ..*options };
    let plain = |o: &CudaOptions| CudaOptions {
        loader: Default::default(),
        scaler: Default::default(),
        convolution: o.convolution.on(compute_capability, o.precision.products()),
        dependent: o.dependent && compute_capability >= Some((9, 0)),
        ..*o
    };
    let rung_of_way = |way: &Way| {
        let rung = way.rung(std::slice::from_ref(recipe), compute_capability);
        match in_groups(&plain(options), recipe) {
            Some(idea) => Rung {
                title: format!("Parameter groups, {}", options.precision.products().label()).into(),
                idea: idea.into(),
                ..rung
            },
            None => rung,
        }
    };
    if let Some(way) = ways().into_iter().find(|way| plain(&way.options) == plain(options)) {
        return rung_of_way(&way);
    }
    let own = Way {
        id: options.precision.name(),
        title: options.precision.name(),
        idea: "Training on the GPU with options that no rung of the ladder has.",
        base: None,
        requires: options.precision.requires(),
        options: *options,
    };
    let title = format!("GPU in {}", options.precision).into();
    let rung = rung_of_way(&own);
    if recipe.groups.is_empty() { Rung { title, ..rung } } else { rung }
}

/// Describes a step that updates its parameters in groups, for which the ladder has no rung. The text says how the
/// kernels are launched, and that updates are separate kernels. `None` for a recipe without groups.
fn in_groups(options: &CudaOptions, recipe: &Recipe) -> Option<String> {
    let grouped = recipe.grouped().ok().flatten().filter(|_| !recipe.groups.is_empty())?;
    let launched = match (options.graph, options.dependent) {
        (true, true) => "one CUDA graph with dependent launches",
        (true, false) => "one CUDA graph",
        (false, _) => "launched kernel by kernel",
    };
    let muon = if grouped.has_muon() { ", filters by Muon" } else { "" };
    Some(format!(
        "A step is {launched}. Kernels of their own update the parameters, each group by its settings{muon}; no last block does what follows."
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpbook_nn::ops::conv2d::cuda::Method;
    use warpbook_nn::ops::muon::Muon;
    use warpbook_nn::ops::optimizer::groups::Group;
    use warpbook_nn::train::Precision;

    #[test]
    fn a_training_in_groups_is_no_rung_with_last_blocks() {
        let muon = Group { muon: Some(Muon::default()), ..Group::new("conv*.weight") };
        let rung_of = |groups: Vec<Group>, cc| {
            rung_on(Some(cc), &CudaOptions::new(Precision::AmpBf16), &Recipe { groups, ..Recipe::mnist() })
        };
        assert_eq!(rung_of(Vec::new(), (9, 0)).id, "13_last_block_bf16");
        let rung = rung_of(vec![muon], (9, 0));
        assert_eq!((&*rung.id, &*rung.title), ("12_dependent_launch_bf16", "Parameter groups, bf16"));
        assert!(
            rung.idea.contains("one CUDA graph with dependent launches") && rung.idea.contains("by Muon"),
            "{rung:?}"
        );
        assert!(rung.kernels().iter().any(|k| k.entry == "muon_update"));
        assert!(rung.kernels().iter().all(|k| !k.entry.ends_with("_last")));
        let older = rung_of(vec![Group::new("*")], (8, 0));
        assert_eq!(&*older.id, "11_few_channels_bf16");
        assert!(older.idea.contains("one CUDA graph.") && !older.idea.contains("Muon"), "{}", older.idea);
        let parts = Recipe { accumulate: 4, ..Recipe::mnist() };
        assert_eq!(rung_on(Some((9, 0)), &CudaOptions::new(Precision::AmpBf16), &parts).id, "12_dependent_launch_bf16");
    }

    #[test]
    fn the_rung_is_the_one_that_this_gpu_runs() {
        let (best, mnist) = (CudaOptions::new(Precision::AmpFp16), Recipe::mnist());
        let rung_for = |cc, options: &CudaOptions| {
            let rung = rung_on(Some(cc), options, &mnist);
            let windows = rung.kernels().iter().any(|k| k.entry == "shifted_windows");
            let turing = rung.kernels().iter().any(|k| k.defines.iter().any(|d| d.name == "TURING"));
            (rung.id.to_string(), windows, turing)
        };
        let is = |id: &str, windows, turing| (id.to_owned(), windows, turing);
        assert_eq!(rung_for((9, 0), &best), is("13_last_block_fp16", true, false));
        assert_eq!(rung_for((8, 0), &best), is("13_last_block_fp16", false, false));
        assert_eq!(rung_for((7, 5), &best), is("13_last_block_fp16", false, true));
        // If separate kernels do the work of last blocks, a GPU without early launches runs an earlier rung.
        let apart = CudaOptions { last_block: false, ..best };
        assert_eq!(rung_for((9, 0), &apart), is("12_dependent_launch_fp16", true, false));
        assert_eq!(rung_for((8, 0), &apart), is("11_few_channels_fp16", false, false));
        assert_eq!(rung_for((7, 5), &apart), is("09_overlap_fp16", false, true));
        let forced = CudaOptions { convolution: Method::ImplicitGemmTuring, ..best };
        assert_eq!(rung_for((7, 5), &forced), is("13_last_block_fp16", false, true));
        assert_eq!(rung_for((9, 0), &forced), is("amp-fp16", false, true));
        assert_eq!(rung_on(Some((9, 0)), &forced, &mnist).title, "GPU in amp-fp16");
    }
}
