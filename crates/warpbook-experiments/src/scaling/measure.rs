//! The measurements in which a rank takes part.

use super::timeline::{self, Moment};
use super::{Cell, Scaling, ScalingWay};
use crate::training::{Set, failure};
use serde::{Deserialize, Serialize};
use std::time::Instant;
use warpbook_device::{CudaDevice, Recorder};
use warpbook_lab::{Error, Lab, Result};
use warpbook_nn::train::{
    CudaOptions, DataParallel, Event, Flow, GradScaler, Place, Precision, Ranks, StepOutcome, TrainError, Trainer,
};
use warpbook_record::{Check, Gradients};

/// Differences are relative to the loss or to this value, whichever is larger.
const LEAST_LOSS: f64 = 0.01;
/// Largest permitted relative difference between the losses of the first steps. On the CPU, the order of the sums
/// differs. On GPUs, smaller batches also use other kernels, and 16-bit types round.
const ALLOWED_ON_CPU: f64 = 2e-4;
const ALLOWED_ON_GPU: f64 = 2e-3;
const ALLOWED_IN_HALF: f64 = 3e-2;
/// Loss scale that is small enough for the gradients of the checked steps not to overflow.
const CHECKED_SCALE: f32 = 1024.0;
/// Number of untimed steps before the timed ones, on the CPU and on GPUs.
const WARM_UP: [usize; 2] = [2, 20];
/// Number of final losses that are checked.
const LAST: usize = 8;

/// The result of measuring one cell of the experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    pub(crate) network: String,
    pub(crate) way: String,
    pub(crate) ranks: usize,
    pub(crate) batch: u64,
    /// Times of a step in microseconds, one for each sample, each measured on the slowest rank.
    pub(crate) samples_us: Vec<f64>,
    pub(crate) check: Option<Check>,
    pub(crate) error: Option<String>,
    /// Description of the data that ranks exchange, in a sentence.
    pub(crate) choice: Option<String>,
    /// Gradients that ranks exchange.
    pub(crate) gradients: Option<Gradients>,
    /// The activity of every rank in one step.
    pub(crate) moments: Vec<Moment>,
    /// Reason why the activity is unknown.
    pub(crate) note: Option<String>,
}

impl Measured {
    fn new(cell: &Cell) -> Self {
        Self {
            network: cell.network.name().into(),
            way: cell.way.id(),
            ranks: cell.world,
            batch: cell.batch,
            samples_us: Vec::new(),
            check: None,
            error: None,
            choice: None,
            gradients: None,
            moments: Vec::new(),
            note: None,
        }
    }

    /// Returns the measurement as a line, such as "cifar10, ranks_fp32, 2 ranks, batch 1024: 250 us a step".
    #[must_use]
    pub fn line(&self) -> String {
        let ranks = warpbook_charts::words::counted(self.ranks, "rank");
        let what = format!("{}, {}, {ranks}, a batch of {} in all", self.network, self.way, self.batch);
        match (&self.error, warpbook_record::stats::median(&self.samples_us)) {
            (Some(error), _) => format!("{what}: FAILED: {error}"),
            (None, Some(us)) => format!("{what}: {} a step", warpbook_charts::words::time(us)),
            (None, None) => format!("{what}: not timed"),
        }
    }
}

/// A source of steps: a trainer, which may be one of several ranks, or replicas in one process.
enum StepSource {
    Trainer(Box<Trainer>, Option<Ranks>),
    Replicas(Box<DataParallel>),
}

impl StepSource {
    fn queue(&mut self, steps: usize) -> std::result::Result<(), TrainError> {
        (0..steps).try_for_each(|_| match self {
            Self::Trainer(trainer, _) => trainer.queue_step(),
            Self::Replicas(replicas) => replicas.queue_step(),
        })
    }

    fn wait(&mut self) -> std::result::Result<(), TrainError> {
        match self {
            Self::Trainer(trainer, _) => trainer.wait(),
            Self::Replicas(replicas) => replicas.wait(),
        }
    }

    fn outcomes(&mut self, count: usize) -> std::result::Result<Vec<StepOutcome>, TrainError> {
        match self {
            Self::Trainer(trainer, _) => trainer.step_outcomes(count),
            Self::Replicas(replicas) => replicas.step_outcomes(count),
        }
    }
}

impl Scaling {
    /// Runs all measurements as one of several ranks, or as the only rank. Every rank must call this method. Rank 0
    /// gets the results and passes each to `tell`.
    ///
    /// # Errors
    /// If a rank is lost or a setting is out of range. A failure that all ranks share becomes a row.
    pub fn work(&self, lab: &Lab, ranks: Option<&Ranks>, tell: &mut dyn FnMut(&Measured)) -> Result<Vec<Measured>> {
        self.validate(lab)?;
        let (world, on_gpu) = (ranks.map_or(1, Ranks::world), lab.device().cuda().is_some());
        let mut all: Vec<Measured> = Vec::new();
        for cell in self.cells(world, on_gpu).iter().filter(|cell| cell.way.ranks) {
            let measured = self.measured(lab, cell, ranks)?;
            tell(&measured);
            all.push(measured);
        }
        if self.timelines && world > 1 {
            self.record_timelines(lab, ranks, &mut all)?;
        }
        Ok(all)
    }

    /// Runs all measurements in one process that drives all devices, for every number of devices.
    ///
    /// # Errors
    /// If a device cannot be opened, or a setting is out of range.
    pub fn work_in_one_process(&self, lab: &Lab, tell: &mut dyn FnMut(&Measured)) -> Result<Vec<Measured>> {
        self.validate(lab)?;
        let on_gpu = lab.device().cuda().is_some();
        let mut all = Vec::new();
        for world in &self.worlds {
            for cell in self.cells(*world, on_gpu).iter().filter(|cell| !cell.way.ranks) {
                let measured = self.measured(lab, cell, None)?;
                tell(&measured);
                all.push(measured);
            }
        }
        Ok(all)
    }

    /// Measures a cell; an error in the training itself becomes the row of the cell.
    fn measured(&self, lab: &Lab, cell: &Cell, ranks: Option<&Ranks>) -> Result<Measured> {
        lab.bench().cancel.check()?;
        let mut measured = Measured::new(cell);
        match self.attempt(lab, cell, ranks, &mut measured) {
            Ok(()) => {}
            // The other ranks have also stopped working.
            Err(error) if ranks.is_some() => return Err(error),
            Err(Error::Device(error)) if error.is_sticky() => return Err(error.into()),
            Err(error) => measured.error = Some(error.to_string()),
        }
        Ok(measured)
    }

    fn attempt(&self, lab: &Lab, cell: &Cell, ranks: Option<&Ranks>, measured: &mut Measured) -> Result<()> {
        let samples = self.set(cell.network, cell.batch)?.samples().len();
        if (samples as u64) < cell.batch {
            // All ranks find the same error, so no rank waits for another.
            let samples = warpbook_charts::words::counted(samples, "sample");
            measured.error = Some(format!("The data set has {samples}, fewer than a batch of {}.", cell.batch));
            return Ok(());
        }
        let check = self.check(lab, cell, ranks)?;
        let failed = !check.passed;
        measured.check = Some(check);
        if failed {
            measured.error = Some("The losses differ from the losses of one rank with the same batch.".into());
            return Ok(());
        }
        let mut steps = self.steps(lab, cell, ranks)?;
        let on_gpu = usize::from(lab.device().cuda().is_some());
        steps.queue(WARM_UP[on_gpu]).and_then(|()| steps.wait()).map_err(failure)?;
        let (of_sample, samples) = (self.steps.unwrap_or([4, 100][on_gpu]), self.samples.unwrap_or([5, 15][on_gpu]));
        let mut own = Vec::with_capacity(samples);
        for _ in 0..samples {
            meet(ranks)?;
            let begun = Instant::now();
            steps.queue(of_sample).and_then(|()| steps.wait()).map_err(failure)?;
            own.push(begun.elapsed().as_secs_f64() * 1e6 / of_sample as f64);
        }
        let last = steps.outcomes(LAST).map_err(failure)?;
        if let Some(loss) = last.iter().map(|o| o.loss).find(|loss| !loss.is_finite()) {
            return Err(Error::Setting(format!("A loss of the timed steps is {loss}.")));
        }
        measured.choice = Some(match &steps {
            StepSource::Trainer(trainer, Some(ranks)) => {
                ensure_the_same_weights(trainer, ranks)?;
                let buckets = trainer.buckets();
                let gradients = Gradients { bytes: buckets.iter().sum(), buckets: buckets.len() as u32 };
                measured.gradients = Some(gradients);
                travels(gradients)
            }
            StepSource::Trainer(_, None) => "no gradient travels".into(),
            StepSource::Replicas(replicas) => {
                let [weights, gradients] = replicas.copied_bytes();
                let bytes = warpbook_charts::words::bytes;
                format!("{} of weights copied, {} of gradients copied back", bytes(weights), bytes(gradients))
            }
        });
        measured.samples_us = slowest(ranks, own)?;
        Ok(())
    }

    /// Compares the losses of the first steps with the losses of a single rank with the same global batch.
    fn check(&self, lab: &Lab, cell: &Cell, ranks: Option<&Ranks>) -> Result<Check> {
        let set = if cell.network.is_rows() {
            // All steps use the same batch; if each step had new Gaussian numbers, the loss would not fall.
            Set::gaussian(cell.batch as usize, self.features, self.seed)
        } else {
            self.set(cell.network, cell.batch)?
        };
        let mut recipe = self.checked_recipe(cell.network, cell.batch)?;
        let batches = set.samples().len() / recipe.batch.max(1);
        let steps = if cell.network.is_rows() {
            recipe.epochs = self.checked_steps as u32;
            self.checked_steps
        } else {
            // Compare only losses of one epoch: the second epoch has another order of samples, which replicas with
            // prepared steps do not follow.
            self.checked_steps.min(batches)
        };
        let place = place(lab, cell.way.precision, Some(CHECKED_SCALE))?;
        let alone = |place: &Place| {
            let trainer = Trainer::on(place, recipe.clone(), set.samples(), None).map_err(failure)?;
            losses(trainer, &set, steps)
        };
        // The other ranks wait while rank 0 trains alone.
        let want = if ranks.is_none_or(|ranks| ranks.rank() == 0) { alone(&place)? } else { Vec::new() };
        let got = match (cell.way.ranks, ranks) {
            (true, Some(ranks)) => {
                let ranks = ranks.with_options(self.options_of(&cell.way));
                let trainer = Trainer::on_ranks(&place, recipe, set.samples(), None, &ranks).map_err(failure)?;
                losses(trainer, &set, steps)?
            }
            (true, None) => alone(&place)?,
            (false, _) => {
                let places = places(lab, cell, Some(CHECKED_SCALE))?;
                let mut replicas = DataParallel::new(&places, recipe, set.samples(), None).map_err(failure)?;
                replicas.prepare_steps(set.samples()).map_err(failure)?;
                let steps_made = (0..steps).try_for_each(|_| replicas.queue_step());
                let outcomes = steps_made.and_then(|()| replicas.step_outcomes(steps)).map_err(failure)?;
                outcomes.iter().map(|o| o.loss).collect()
            }
        };
        let allowed = match (lab.device().cuda(), cell.way.precision) {
            (None, _) if cell.way.wire != warpbook_ranks::Wire::F32 => ALLOWED_IN_HALF,
            (None, _) => ALLOWED_ON_CPU,
            (Some(_), Precision::Fp32) => ALLOWED_ON_GPU,
            (Some(_), _) => ALLOWED_IN_HALF,
        };
        let reference = format!(
            "the first {steps} losses of one rank with the same batch, without dropout and augmentation, before the timed steps"
        );
        let compared = |want: &[f64]| {
            let pairs: Vec<(f64, f64)> = got.iter().copied().zip(want.iter().copied()).collect();
            let all = got.len() == steps && want.len() == steps;
            Check::compare(reference, if all { &pairs } else { &[] }, LEAST_LOSS, allowed)
        };
        // All ranks continue with the reference losses of rank 0.
        let of_first = all_numbers(ranks, &want)?;
        Ok(compared(&of_first[0]))
    }

    fn options_of(&self, way: &ScalingWay) -> warpbook_nn::train::RanksOptions {
        warpbook_nn::train::RanksOptions { wire: way.wire, ..self.options }
    }

    /// Prepares the trainer or the replicas that run the timed steps.
    fn steps(&self, lab: &Lab, cell: &Cell, ranks: Option<&Ranks>) -> Result<StepSource> {
        let (set, recipe) = (self.set(cell.network, cell.batch)?, self.recipe(cell.network, cell.batch)?);
        if !cell.way.ranks {
            let places = places(lab, cell, None)?;
            let mut replicas = DataParallel::new(&places, recipe, set.samples(), None).map_err(failure)?;
            replicas.prepare_steps(set.samples()).map_err(failure)?;
            return Ok(StepSource::Replicas(Box::new(replicas)));
        }
        let place = place(lab, cell.way.precision, None)?;
        let ranks = ranks.map(|ranks| ranks.with_options(self.options_of(&cell.way)));
        let mut trainer = match &ranks {
            Some(ranks) => Trainer::on_ranks(&place, recipe, set.samples(), None, ranks),
            None => Trainer::on(&place, recipe, set.samples(), None),
        }
        .map_err(failure)?;
        trainer.prepare_steps(set.samples()).map_err(failure)?;
        Ok(StepSource::Trainer(Box::new(trainer), ranks))
    }

    /// Records the activity of every rank in one step of each way to train, at the first size of each network.
    fn record_timelines(&self, lab: &Lab, ranks: Option<&Ranks>, all: &mut [Measured]) -> Result<()> {
        let Some(ranks) = ranks else { return Ok(()) };
        let on_gpu = lab.device().cuda().is_some();
        // Use one recorder for all ways. CUPTI identifies kernels by the addresses of their functions, and after a
        // recorder ends, later kernels could get the same addresses.
        let recorder = lab.device().cuda().map(Recorder::start);
        let mut seen: Vec<(String, String)> = Vec::new();
        for cell in self.cells(ranks.world(), on_gpu).iter().filter(|cell| cell.way.ranks) {
            let key = (cell.network.name().to_owned(), cell.way.id());
            let is_of_cell =
                |m: &Measured| m.way == cell.way.id() && m.batch == cell.batch && m.network == cell.network.name();
            // A measurement that failed has failed on all ranks.
            if seen.contains(&key) || all.iter().any(|m| is_of_cell(m) && m.error.is_some()) {
                continue;
            }
            seen.push(key);
            let recorded = match &recorder {
                None => self.recorded_on_cpu(lab, cell, ranks).map(Ok)?,
                Some(recorder) => self.recorded_on_gpu(lab, recorder, cell, ranks)?,
            };
            if let Some(measured) = all.iter_mut().find(|m| is_of_cell(m)) {
                match recorded {
                    Ok(own) => measured.moments = timeline::of_all(ranks, &own)?,
                    Err(why) => measured.note = Some(why),
                }
            }
        }
        Ok(())
    }

    fn recorded_on_cpu(&self, lab: &Lab, cell: &Cell, ranks: &Ranks) -> Result<Vec<Moment>> {
        let mut steps = self.steps(lab, cell, Some(ranks))?;
        steps.queue(WARM_UP[0]).map_err(failure)?;
        meet(Some(ranks))?;
        ranks.record_work();
        let made = steps.queue(1);
        let work = ranks.recorded_work();
        made.map_err(failure)?;
        Ok(timeline::of_work(ranks.rank(), &work))
    }

    /// Returns the activities of a step on GPUs, or the reason why a rank recorded nothing.
    fn recorded_on_gpu(
        &self,
        lab: &Lab,
        recorder: &warpbook_device::Result<Recorder>,
        cell: &Cell,
        ranks: &Ranks,
    ) -> Result<std::result::Result<Vec<Moment>, String>> {
        let why = recorder.as_ref().err().map(ToString::to_string).unwrap_or_default();
        let whys = ranks.all_gather(why.as_bytes()).map_err(failure)?;
        if let Some(why) = whys.iter().find(|why| !why.is_empty()) {
            return Ok(Err(format!("No timeline of a step: {}", String::from_utf8_lossy(why))));
        }
        let Ok(recorder) = recorder else { return Ok(Err(why)) };
        let mut steps = self.steps(lab, cell, Some(ranks))?;
        steps.queue(WARM_UP[1]).and_then(|()| steps.wait()).map_err(failure)?;
        recorder.take()?;
        meet(Some(ranks))?;
        steps.queue(timeline::RECORDED).and_then(|()| steps.wait()).map_err(failure)?;
        Ok(Ok(timeline::of_activities(ranks.rank(), recorder)?))
    }
}

/// Returns a sentence that describes the data exchanged in a step.
fn travels(gradients: Gradients) -> String {
    let total = warpbook_charts::words::bytes(gradients.bytes);
    match gradients.buckets {
        1 => format!("{total} of gradients in 1 bucket"),
        n => format!("{total} of gradients in {n} buckets"),
    }
}

/// Returns the fastest place where a rank can train.
fn place(lab: &Lab, precision: Precision, scale: Option<f32>) -> Result<Place> {
    Ok(match Place::new(lab.device(), precision).map_err(failure)? {
        Place::Cuda(device, options) => {
            let init_scale = scale.unwrap_or(options.scaler.init_scale);
            let scaler = GradScaler { init_scale, ..options.scaler };
            Place::Cuda(device, CudaOptions { scaler, ..options })
        }
        Place::Cpu => Place::Cpu,
    })
}

/// Returns the places for the replicas of one process: one GPU each, or the CPU, which the replicas share.
fn places(lab: &Lab, cell: &Cell, scale: Option<f32>) -> Result<Vec<Place>> {
    let first = place(lab, cell.way.precision, scale)?;
    let Place::Cuda(device, options) = &first else { return Ok(vec![Place::Cpu; cell.world]) };
    let others = (0..).filter(|index| *index != device.info().index).take(cell.world - 1);
    let others = others.map(|index| Ok(Place::Cuda(CudaDevice::open(index)?, *options)));
    std::iter::once(Ok(first.clone())).chain(others).collect()
}

/// Returns the losses of the first steps of a training run with global batches.
fn losses(mut trainer: Trainer, set: &Set, steps: usize) -> Result<Vec<f64>> {
    let mut losses = Vec::new();
    let mut hear = |event: Event| {
        if let Event::Step { loss, .. } = event {
            losses.push(loss);
        }
        Flow::Continue
    };
    trainer.train_until(steps as u64, set.samples(), set.samples(), u64::MAX, &mut hear).map_err(failure)?;
    Ok(losses)
}

/// Waits until all ranks have arrived.
fn meet(ranks: Option<&Ranks>) -> Result<()> {
    ranks.map_or(Ok(()), |ranks| ranks.all_gather(&[]).map(drop).map_err(failure))
}

/// Gathers the numbers from all ranks.
fn all_numbers(ranks: Option<&Ranks>, own: &[f64]) -> Result<Vec<Vec<f64>>> {
    let Some(ranks) = ranks else { return Ok(vec![own.to_vec()]) };
    let bytes: Vec<u8> = own.iter().flat_map(|v| v.to_le_bytes()).collect();
    let numbers =
        |bytes: &Vec<u8>| bytes.chunks_exact(8).map(|b| f64::from_le_bytes(b.try_into().unwrap_or_default())).collect();
    Ok(ranks.all_gather(&bytes).map_err(failure)?.iter().map(numbers).collect())
}

/// Returns the time of the slowest rank for each sample.
fn slowest(ranks: Option<&Ranks>, own: Vec<f64>) -> Result<Vec<f64>> {
    let all = all_numbers(ranks, &own)?;
    Ok((0..own.len()).map(|i| all.iter().filter_map(|of| of.get(i)).fold(0.0, |most: f64, us| most.max(*us))).collect())
}

/// Returns an error unless all ranks have bit-identical weights; the message says which ranks differ.
fn ensure_the_same_weights(trainer: &Trainer, ranks: &Ranks) -> Result<()> {
    let weights = trainer.weights().map_err(failure)?;
    let word = |hash: u64, v: &f32| (hash ^ u64::from(v.to_bits())).wrapping_mul(0x0000_0100_0000_01b3);
    let hash = weights.values().iter().flatten().fold(0xcbf2_9ce4_8422_2325, word);
    let all = ranks.all_gather(&hash.to_le_bytes()).map_err(failure)?;
    match all.iter().position(|other| *other != all[0]) {
        None => Ok(()),
        Some(rank) => Err(Error::Setting(format!(
            "The weights of rank {rank} differ from those of rank 0 after the timed steps."
        ))),
    }
}
