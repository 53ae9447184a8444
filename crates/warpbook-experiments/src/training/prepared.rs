//! The samples, the reference and the candidates of one problem.

use super::Training;
use super::data::Set;
use super::steps::{TimedSteps, losses};
use super::workload::Workload;
use crate::Attempts;
use warpbook_device::{CudaDevice, Stream};
use warpbook_kernels::Tolerance;
use warpbook_lab::experiment::{Candidate, Checked, Details, Prepared, Trials};
use warpbook_lab::{Error, Lab, Result};
use warpbook_nn::train::{CudaOptions, GradScaler, Place, Recipe, Way};
use warpbook_record::{Check, Dtype, KernelStats, LossPoint, Problem, Rung, TrainLog};

/// Errors are relative to the loss or to this value, whichever is larger, since relative errors of tiny losses are not
/// meaningful.
const LEAST_LOSS: f64 = 0.01;
/// Number of CPU steps that are repeated to check the CPU rung, since the reference is also computed on the CPU.
const REPEATED: usize = 3;
/// Loss scale that is small enough for the gradients of the checked steps not to overflow; a skipped step would shift
/// all later ones.
const CHECKED_SCALE: f32 = 1024.0;

/// The samples of a problem, and the reference losses for all rungs.
pub(super) struct TrainingWork<'a> {
    training: &'a Training,
    lab: &'a Lab,
    problem: Problem,
    timed: (Recipe, Set),
    checked: (Recipe, Set),
    reference: Vec<f64>,
}

impl<'a> TrainingWork<'a> {
    /// Opens or draws the samples, and computes the first steps on the CPU in fp32.
    pub(super) fn new(training: &'a Training, lab: &'a Lab, problem: &Problem) -> Result<Self> {
        let workload = Workload::from_problem(problem).unwrap_or(Workload::Mnist);
        let (batch, features) = (problem.count("batch").unwrap_or(1), training.features);
        let seed = training.seed;
        let set = training.files.set(workload, batch as usize, features, seed)?;
        let checked_set = match workload {
            // All steps use the same batch; if each step had new Gaussian numbers, the loss would not fall.
            Workload::AmpRecipe => Set::gaussian(batch as usize, features, seed),
            _ => set.clone(),
        };
        let checked = (workload.checked_recipe(batch, features, seed), checked_set);
        let steps = training.steps_of(workload) as usize;
        let reference = losses(lab, &Place::Cpu, (&checked.0, &checked.1), steps, None)?;
        Ok(Self {
            training,
            lab,
            problem: problem.clone(),
            timed: (workload.recipe(batch, features, seed), set),
            checked,
            reference,
        })
    }

    fn on_cpu(&self) -> Result<Made> {
        let steps = REPEATED.min(self.reference.len());
        let found = losses(self.lab, &Place::Cpu, (&self.checked.0, &self.checked.1), steps, None)?;
        let what =
            format!("the first {steps} losses of the same training, made before, without dropout and augmentation");
        let check = self.compare(what, &found, Dtype::F32);
        let timed = TimedSteps::new(&Place::Cpu, &self.timed.0, &self.timed.1)?;
        Ok(Made { timed, check, losses: self.reference.clone(), kernels: Vec::new(), dtype: None, choice: None })
    }

    fn on_gpu(&self, device: &CudaDevice, way: &Way, limit_s: Option<f64>) -> Result<Made> {
        self.lab.check_products(device, &way.options, &self.timed.0.network)?;
        let scaler = GradScaler { init_scale: CHECKED_SCALE, ..way.options.scaler };
        let place = Place::Cuda(device.clone(), CudaOptions { scaler, ..way.options });
        let steps = self.reference.len();
        let found = losses(self.lab, &place, (&self.checked.0, &self.checked.1), steps, limit_s)?;
        let what = format!(
            "the first {steps} losses of the same training on the CPU in fp32, without dropout and augmentation, at a learning rate of {}",
            self.checked.0.learning_rate
        );
        let products = way.options.precision.products();
        let check = self.compare(what, &found, products);
        // The training above has freed its memory, so the measured peak belongs to the timed steps.
        let timed = TimedSteps::new(&Place::Cuda(device.clone(), way.options), &self.timed.0, &self.timed.1)?;
        let stats = |spec| device.kernel(&spec, spec.tiles.first()?).ok().map(|k| k.stats().clone());
        let here = device.info().compute_capability;
        let specs = if way.library().is_some() { Vec::new() } else { way.specs_on(here, &self.timed.0) };
        let kernels = specs.into_iter().filter_map(stats).collect();
        let dtype = Some(products).filter(|d| *d != Dtype::F32);
        Ok(Made { timed, check, losses: found, kernels, dtype, choice: way.versions(device) })
    }

    fn compare(&self, what: String, found: &[f64], products: Dtype) -> Check {
        let pairs: Vec<(f64, f64)> = found.iter().copied().zip(self.reference.iter().copied()).collect();
        Check::compare(what, &pairs, LEAST_LOSS, Tolerance::losses(products).0)
    }
}

impl Prepared for TrainingWork<'_> {
    fn candidate<'p>(&'p self, rung: &Rung, trials: &mut Trials<'_>) -> Result<Box<dyn Candidate + 'p>> {
        let made = match (rung.is_cpu(), self.lab.device().cuda()) {
            (true, _) => self.on_cpu()?,
            (false, None) => return Err(warpbook_device::Error::NeedsCuda("This rung").into()),
            (false, Some(_)) if rung.variant_of.is_some() => {
                return Err(Error::Setting(
                    "A training has no kernel that can be replaced by itself: it is made of many. Try yours in the matrix product, or \
                     in an experiment that you write."
                        .into(),
                ));
            }
            (false, Some(device)) => {
                let way = self.training.way_of(rung);
                let way = way.ok_or_else(|| Error::UnknownRung { name: rung.id.to_string(), nearest: Vec::new() })?;
                self.on_gpu(device, way, trials.limit_s)?
            }
        };
        Ok(Box::new(OneStep { work: self, rung: rung.id.to_string(), made }))
    }
}

/// The prepared parts of a candidate.
struct Made {
    timed: TimedSteps,
    check: Check,
    /// Losses of the checked steps.
    losses: Vec<f64>,
    kernels: Vec<KernelStats>,
    /// Data type of the products, if it is not fp32.
    dtype: Option<Dtype>,
    /// Names the libraries that the training uses.
    choice: Option<String>,
}

/// A candidate that repeats a training step.
struct OneStep<'p> {
    work: &'p TrainingWork<'p>,
    rung: String,
    made: Made,
}

impl Candidate for OneStep<'_> {
    fn stream(&self) -> Option<&Stream> {
        self.made.timed.stream()
    }

    /// Returns true, because a training run has its own stream and its memory must be measured alone.
    fn timed_alone(&self) -> bool {
        true
    }

    fn launch(&self) -> warpbook_device::Result<()> {
        self.made.timed.step()
    }

    fn check(&self) -> Result<Checked> {
        let error = self.made.timed.flaw()?;
        Ok(Checked { check: self.made.check.clone(), error, log: Some(self.log()) })
    }

    fn details(&self) -> Details {
        let peak_bytes = self.stream().map(|_| self.made.timed.peak_bytes());
        let (kernels, choice) = (self.made.kernels.clone(), self.made.choice.clone());
        Details { kernels, choice, dtype: self.made.dtype, peak_bytes, ..Details::default() }
    }
}

impl OneStep<'_> {
    fn log(&self) -> TrainLog {
        let point = |(i, loss): (usize, &f64)| LossPoint { epoch: 1, step: Some(i as u64 + 1), loss: *loss };
        TrainLog {
            rung: self.rung.clone(),
            problem: self.work.problem.clone(),
            losses: self.made.losses.iter().enumerate().map(point).collect(),
            parameters: Default::default(),
            train_loss: self.made.losses.last().copied().unwrap_or(f64::NAN),
            test_loss: f64::NAN,
            course: None,
        }
    }
}
