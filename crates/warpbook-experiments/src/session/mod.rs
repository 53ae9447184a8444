//! Training in a lab: set up, monitored, and stored as a record.

mod points;
mod profiled;
mod progress;
mod recorder;
mod training_run;
mod whole;
mod words;

pub use progress::training_progress;
pub use training_run::TrainingRun;
pub(crate) use whole::check as accuracy_check;
pub use whole::{Timed, WholeTraining, WholeTrainings};
pub use words::{ranks as ranks_line, training_line};

use crate::Attempts;
use progress::Throttle;
use recorder::{Beginning, Recorder};
use std::path::PathBuf;
use std::time::Duration;
use warpbook_data::{Dataset, Rows, Source, Splits};
use warpbook_device::Device;
use warpbook_lab::{Error, Lab, Result, write_record};
use warpbook_nn::train::{CudaOptions, Event, Flow, Loader, Place, Precision, Ranks, Recipe, Samples, Trainer, ways};
use warpbook_nn::weights::Weights;

/// Default number of batches between two lines of progress.
const LOG_EVERY: u64 = 100;

/// The samples for training and for testing a network.
#[derive(Debug, Clone, Copy)]
pub struct Sets<'a> {
    /// Samples for training.
    pub train: Samples<'a>,
    /// Samples for testing after every epoch.
    pub test: Samples<'a>,
}

impl<'a> From<&'a Splits> for Sets<'a> {
    fn from(splits: &'a Splits) -> Self {
        Self { train: (&splits.train).into(), test: (&splits.test).into() }
    }
}

impl<'a> From<(&'a Dataset, &'a Dataset)> for Sets<'a> {
    fn from((train, test): (&'a Dataset, &'a Dataset)) -> Self {
        Self { train: train.into(), test: test.into() }
    }
}

impl<'a> From<(&'a Rows, &'a Rows)> for Sets<'a> {
    fn from((train, test): (&'a Rows, &'a Rows)) -> Self {
        Self { train: train.into(), test: test.into() }
    }
}

/// A training run that is being set up; see [`Lab::train`].
#[derive(Debug)]
#[must_use = "nothing is trained until `run` is called"]
pub struct Session<'a> {
    lab: &'a Lab,
    recipe: Recipe,
    sets: Sets<'a>,
    precision: Precision,
    options: Option<CudaOptions>,
    loader: Loader,
    weights: Option<Weights>,
    resume: Option<PathBuf>,
    data: Option<Source>,
    data_note: Option<String>,
    checkpoint: Option<PathBuf>,
    out: Option<PathBuf>,
    log_every: u64,
    budget: Option<Duration>,
    read_every: Option<u64>,
    ranks: Option<Ranks>,
    command: String,
}

/// Extends the lab with training.
pub trait Trains {
    /// Creates a training run on the lab's device. The session's methods set it up, and [`Session::run`] starts it.
    ///
    /// Interrupting a notebook ends evcxr's process at once, and all variables are lost. The files of
    /// [`Session::checkpoint`] and [`Session::out`] survive. At most the current epoch or a minute of it is lost, and
    /// [`Session::resume`] continues from there. To end a training run and keep the variables, use
    /// [`Session::time_budget`].
    ///
    /// ```
    /// use warpbook_data::synthetic_digits;
    /// use warpbook_experiments::Trains;
    /// use warpbook_lab::Lab;
    /// use warpbook_nn::train::Recipe;
    ///
    /// let lab = Lab::open("cpu")?;
    /// let digits = synthetic_digits(64, 32, 1);
    /// let training = lab.train(Recipe { batch: 32, epochs: 1, ..Recipe::mnist() }, &digits).log_every(1).run()?;
    /// assert_eq!(training.log().losses.len(), 2);
    /// # Ok::<(), warpbook_lab::Error>(())
    /// ```
    fn train<'a>(&'a self, recipe: Recipe, sets: impl Into<Sets<'a>>) -> Session<'a>;
}

impl Trains for Lab {
    fn train<'a>(&'a self, recipe: Recipe, sets: impl Into<Sets<'a>>) -> Session<'a> {
        Session {
            lab: self,
            recipe,
            sets: sets.into(),
            precision: Precision::Fp32,
            options: None,
            loader: Loader::default(),
            weights: None,
            resume: None,
            data: None,
            data_note: None,
            checkpoint: None,
            out: None,
            log_every: LOG_EVERY,
            budget: None,
            read_every: None,
            ranks: None,
            command: String::new(),
        }
    }
}

impl<'a> Session<'a> {
    /// Sets the precision; the default is fp32. The CPU supports only fp32.
    pub fn precision(mut self, precision: Precision) -> Self {
        self.precision = precision;
        self
    }

    /// Trains like a rung of the ladder, such as `08_graph_fp16`.
    ///
    /// # Errors
    /// If there is no such rung.
    pub fn rung(self, id: &str) -> Result<Self> {
        let all = ways();
        let way = all.iter().find(|w| w.id == id).ok_or_else(|| {
            let ids: Vec<&str> = all.iter().map(|w| w.id).collect();
            Error::Setting(format!("`{id}` is not a rung of training; choose from {}.", ids.join(", ")))
        })?;
        Ok(self.options(way.options))
    }

    /// Sets the options for training on a GPU. By default, the fastest options for the precision are used.
    pub fn options(mut self, options: CudaOptions) -> Self {
        self.options = Some(options);
        self
    }

    /// Changes the options for training on a GPU: the options of [`Session::rung`] or [`Session::options`], or else the
    /// fastest ones for the precision. Set the precision first.
    pub fn change(self, change: impl FnOnce(CudaOptions) -> CudaOptions) -> Self {
        let options = self.options.unwrap_or_else(|| CudaOptions::new(self.precision));
        self.options(change(options))
    }

    /// Sets how batches of images are loaded to a GPU.
    pub fn loader(mut self, loader: Loader) -> Self {
        self.loader = loader;
        self
    }

    /// Starts the training from these weights.
    pub fn weights(mut self, weights: Weights) -> Self {
        self.weights = Some(weights);
        self
    }

    /// Resumes the training from this checkpoint.
    pub fn resume(mut self, path: impl Into<PathBuf>) -> Self {
        self.resume = Some(path.into());
        self
    }

    /// Stores a note in the checkpoints that says how to reopen the data set; see [`Trainer::trained_on`].
    pub fn trained_on(mut self, data: impl Into<Source>) -> Self {
        self.data = Some(data.into());
        self
    }

    /// Describes the images in the record, such as "recompressed as JPEG q75", if their files have no description.
    pub fn data_note(mut self, note: impl Into<String>) -> Self {
        self.data_note = Some(note.into());
        self
    }

    /// Saves a checkpoint to this file after every epoch, every minute within an epoch, and at the end.
    pub fn checkpoint(mut self, path: impl Into<PathBuf>) -> Self {
        self.checkpoint = Some(path.into());
        self
    }

    /// Writes the record to this file every few seconds and at the end.
    pub fn out(mut self, path: impl Into<PathBuf>) -> Self {
        self.out = Some(path.into());
        self
    }

    /// Sets the number of batches between two logged losses, each of which is a mean since the previous one; 100 by
    /// default. With 1, every step is logged.
    pub fn log_every(mut self, batches: u64) -> Self {
        self.log_every = batches.max(1);
        self
    }

    /// Ends the training after the step in which this time is exceeded.
    pub fn time_budget(mut self, budget: Duration) -> Self {
        self.budget = Some(budget);
        self
    }

    /// Limits the number of steps that are queued before their losses are read; see [`Trainer::read_losses_every`].
    pub fn read_losses_every(mut self, steps: u64) -> Self {
        self.read_every = Some(steps);
        self
    }

    /// Trains as one of several ranks, which must all set up the same session; see [`Trainer::on_ranks`]. Rank 0 saves
    /// the checkpoint; each rank writes its own record.
    pub fn ranks(mut self, ranks: &Ranks) -> Self {
        self.ranks = Some(ranks.clone());
        self
    }

    /// Sets the command that repeats the training, which is stored in the record.
    pub fn command(mut self, command: impl Into<String>) -> Self {
        self.command = command.into();
        self
    }

    fn place(&self) -> Result<Place> {
        let place = match (self.lab.device(), self.options) {
            (Device::Cuda(device) | Device::Emulator(device), Some(options)) => Place::Cuda(device.clone(), options),
            (Device::Cpu(_), Some(_)) => {
                return Err(Error::Setting(
                    "The CPU has only one way of training; the rungs need a lab on a GPU (--device cuda:0).".into(),
                ));
            }
            (device, None) => Place::new(device, self.precision)?,
        };
        Ok(match place {
            Place::Cuda(device, options) => Place::Cuda(device, CudaOptions { loader: self.loader, ..options }),
            Place::Cpu => Place::Cpu,
        })
    }

    /// Prepares the training: allocates memory on a GPU and compiles kernels. If layers use learners' kernels, these
    /// are tried first.
    ///
    /// # Errors
    /// If a learner's kernel gives a wrong result ([`Error::WrongProduct`]), a setting does not suit these samples, a
    /// file cannot be read or written, or the training does not fit into the device's memory.
    pub fn start(self) -> Result<Underway<'a>> {
        let place = self.place()?;
        if let Place::Cuda(device, options) = &place {
            self.lab.check_products(device, options, &self.recipe.network)?;
        }
        let mut trainer = match &self.ranks {
            Some(ranks) => Trainer::on_ranks(&place, self.recipe, self.sets.train, self.weights.as_ref(), ranks)?,
            None => Trainer::on(&place, self.recipe, self.sets.train, self.weights.as_ref())?,
        };
        if let Some(path) = &self.resume {
            trainer.resume(path)?;
        }
        if let Some(data) = self.data {
            trainer = trainer.trained_on(data);
        }
        if let Some(budget) = self.budget {
            trainer = trainer.time_budget(budget);
        }
        if let Some(steps) = self.read_every {
            trainer = trainer.read_losses_every(steps);
        }
        if let Some(path) = &self.checkpoint {
            trainer = trainer.checkpoint(path);
            if trainer.writes() {
                trainer.ensure_checkpoint_is_writable()?;
            }
        }
        let beginning = Beginning {
            trainer: &trainer,
            train: self.sets.train,
            data_note: self.data_note,
            log_every: self.log_every,
            command: self.command,
        };
        let recorder = Recorder::new(self.lab, &beginning);
        Ok(Underway { lab: self.lab, trainer, recorder, sets: self.sets, log_every: self.log_every, out: self.out })
    }

    /// Runs the training. The lab's listener receives lines and epochs, and [`cancel`](Lab::cancel) ends the training
    /// after the current step.
    ///
    /// A loss that is not finite also ends the training, and is reported in the result; see [`TrainingRun::error`].
    ///
    /// # Errors
    /// See [`Session::start`].
    pub fn run(self) -> Result<TrainingRun> {
        let lab = self.lab;
        let (mut throttle, cancel) = (Throttle::default(), lab.cancel());
        let underway = self.start()?;
        let classified = underway.is_classified();
        Ok(underway.finish(&mut |event| {
            if let Some(line) = throttle.line(event, classified) {
                lab.tell(&warpbook_lab::Event::Training(&line));
            }
            if cancel.is_cancelled() { Flow::Stop } else { Flow::Continue }
        }))
    }
}

/// A training run that is ready to start.
#[derive(Debug)]
pub struct Underway<'a> {
    lab: &'a Lab,
    trainer: Trainer,
    recorder: Recorder,
    sets: Sets<'a>,
    log_every: u64,
    out: Option<PathBuf>,
}

impl Underway<'_> {
    /// Returns the trainer of this training run.
    #[must_use]
    pub fn trainer(&self) -> &Trainer {
        &self.trainer
    }

    /// Describes the samples, as a sentence without its full stop.
    #[must_use]
    pub fn data_note(&self) -> String {
        words::data_note(self.sets.train)
    }

    /// Returns true if the samples have labels, so that results have an accuracy.
    #[must_use]
    pub fn is_classified(&self) -> bool {
        matches!(self.sets.train, Samples::Images(_))
    }

    /// Trains to the end. The listener receives every event and may stop the training.
    pub fn finish(self, listener: &mut dyn FnMut(&Event) -> Flow) -> TrainingRun {
        let Self { lab, mut trainer, mut recorder, sets, log_every, out } = self;
        recorder.begin();
        let ended = trainer.train(sets.train, sets.test, log_every, &mut |event| {
            recorder.hear(&event);
            if let Some(path) = out.as_ref().filter(|_| !matches!(event, Event::Step { .. })) {
                // If the disk is full now, it may have room at the end; an error is reported then.
                let _ = recorder.keep(path);
            }
            listener(&event)
        });
        let mut record = recorder.end(&trainer, &ended);
        record.environment.clocks = lab.watch().report();
        let written = out.map(|path| write_record(&record, path));
        TrainingRun { record, trainer, ended, written }
    }
}
