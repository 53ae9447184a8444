//! The points of one problem, and the rungs, ready to run.

use super::Regression;
use super::cpu::{self, Descent, Threads};
use super::cuda::{Descender, DevicePoints, Settings};
use super::data::DataSet;
use super::reference::{Reference, Statistics};
use std::cell::RefCell;
use warpbook_device::{Device, Stream};
use warpbook_kernels::Tolerance;
use warpbook_kernels::regression::{LOG_EVERY, Plan, RegressionRow, features_of};
use warpbook_lab::experiment::{Candidate, Checked, Details, Prepared, Repeated, Trials};
use warpbook_lab::{Event, Lab, Result};
use warpbook_record::{Check, Dtype, LossPoint, Part, PartGroup, Problem, Run, Rung, TrainLog};

/// The points of one problem, and the reference descent.
pub(super) struct ProblemPoints<'a> {
    experiment: &'a Regression,
    lab: &'a Lab,
    problem: Problem,
    host: DataSet,
    device: Option<DevicePoints>,
    train: Statistics,
    test: Statistics,
    reference: Reference,
}

impl<'a> ProblemPoints<'a> {
    pub(super) fn draw(experiment: &'a Regression, lab: &'a Lab, problem: &Problem) -> Result<Self> {
        let (points, features) = (problem.size(), features_of(problem));
        lab.tell(&Event::Preparing(&format!("drawing {} points and the reference", problem.short)));
        let (line, noise, seed) = (&experiment.line, experiment.noise, experiment.seed);
        let device = match lab.device() {
            Device::Cuda(device) | Device::Emulator(device) => {
                Some(DevicePoints::draw(device, (points, features), line, noise, seed)?)
            }
            Device::Cpu(_) => None,
        };
        // The reference uses the points that the kernels read, even if they differ from the points that should have
        // been drawn.
        let host = match &device {
            Some(points) => points.download()?,
            None => DataSet::around(line, (points, features), noise, seed),
        };
        let statistics = |(x, y): (Vec<&[f32]>, &[f32])| Statistics::from_points((&x, y));
        let (train, test) = (statistics(host.training()), statistics(host.test()));
        let start: Vec<f64> = initial(experiment, features).iter().map(|w| f64::from(*w)).collect();
        let reference = train.descend(&start, f64::from(experiment.learning_rate), experiment.epochs, LOG_EVERY);
        Ok(Self { experiment, lab, problem: problem.clone(), host, device, train, test, reference })
    }

    fn settings(&self) -> Settings<'_> {
        Settings {
            tile: self.experiment.selection.tile.as_deref(),
            start: initial(self.experiment, features_of(&self.problem)),
            epochs: self.experiment.epochs,
            learning_rate: self.experiment.learning_rate,
        }
    }

    fn row(&self, rung: &Rung) -> Result<&RegressionRow> {
        let unknown = || warpbook_lab::Error::UnknownRung { name: rung.id.to_string(), nearest: Vec::new() };
        self.experiment.row_of(rung).ok_or_else(unknown)
    }

    pub(super) fn descender(&self, rung: &Rung) -> Result<Descender<'_>> {
        self.descender_of(rung, &self.settings())
    }

    fn descender_of(&self, rung: &Rung, settings: &Settings<'_>) -> Result<Descender<'_>> {
        let (Some(device), Some(points)) = (self.lab.device().cuda(), &self.device) else {
            return Err(warpbook_device::Error::NeedsCuda("This rung").into());
        };
        Descender::new(device, points, rung, self.row(rung)?.plan, settings)
    }

    /// Compares a descent with the reference.
    fn check(&self, rung: &Rung, got: &Descent) -> Checked {
        let want = &self.reference;
        let mut pairs: Vec<(f64, f64)> =
            got.weights.iter().map(|w| f64::from(*w)).zip(want.weights.iter().copied()).collect();
        pairs.extend(got.losses.iter().map(|l| f64::from(*l)).zip(want.losses.iter().copied()));
        let Tolerance(tolerance) = Tolerance::descent(Dtype::F32, self.train.n(), self.experiment.epochs);
        let reference = "the same descent in f64 on the CPU: all weights and the logged losses";
        let mut check = Check::compare(reference, &pairs, 1.0, tolerance);
        check.passed &= got.losses.len() == want.losses.len() && got.weights.len() == want.weights.len();
        let log = self.train_log(rung, got);
        let error = log.diverged().then(|| {
            let at = log.losses.iter().find(|p| !p.loss.is_finite()).map_or(self.experiment.epochs, |p| p.epoch);
            format!(
                "the descent diverged: by epoch {at} the loss is no longer a finite number. A smaller learning rate than {} may help.",
                self.experiment.learning_rate
            )
        });
        Checked { check, error, log: Some(log) }
    }

    fn train_log(&self, rung: &Rung, got: &Descent) -> TrainLog {
        let weights: Vec<f64> = got.weights.iter().map(|w| f64::from(*w)).collect();
        let name = |i: usize| match (i + 1 == weights.len(), weights.len()) {
            (true, _) => "b".to_owned(),
            (_, 2) => "w".to_owned(),
            _ => format!("w{i}"),
        };
        let logged = (1..).zip(&got.losses);
        TrainLog {
            rung: rung.id.to_string(),
            problem: self.problem.clone(),
            losses: logged
                .map(|(i, loss)| LossPoint { epoch: i * LOG_EVERY, step: None, loss: f64::from(*loss) })
                .collect(),
            parameters: weights.iter().enumerate().map(|(i, w)| (name(i), *w)).collect(),
            train_loss: self.train.loss(&weights),
            test_loss: self.test.loss(&weights),
            course: None,
        }
    }
}

/// Returns the initial weights: one weight for each feature, then b.
fn initial(experiment: &Regression, features: u64) -> Vec<f32> {
    let (w, b) = experiment.line.start;
    let mut weights = vec![w; features as usize];
    weights.push(b);
    weights
}

impl Prepared for ProblemPoints<'_> {
    fn candidate<'p>(&'p self, rung: &Rung, _: &mut Trials<'_>) -> Result<Box<dyn Candidate + 'p>> {
        let row = self.row(rung)?.clone();
        Ok(match row.plan {
            Plan::Cpu { all_threads } => {
                let threads = if all_threads { Threads::All } else { Threads::One };
                Box::new(CpuDescent { points: self, rung: rung.clone(), threads, last: RefCell::default() })
            }
            _ => Box::new(GpuDescent { points: self, rung: rung.clone(), row, descender: self.descender(rung)? }),
        })
    }

    /// Returns a candidate with two epochs of a rung that launches kernels for each epoch. In the second epoch, the
    /// points are in L2, as in all but the first epoch of a descent. Other rungs are counted as a whole, since their
    /// epochs cannot be separated.
    fn to_count<'p>(
        &'p self,
        rung: &Rung,
        trials: &mut Trials<'_>,
    ) -> Result<(Box<dyn Candidate + 'p>, Option<Repeated>)> {
        let row = self.row(rung)?.clone();
        if !row.plan.launches_each_epoch() {
            return Ok((self.candidate(rung, trials)?, None));
        }
        let descender = self.descender_of(rung, &Settings { epochs: 2, ..self.settings() })?;
        let second = Repeated { times: 2, last: "the second of two epochs", all: "two epochs" };
        Ok((Box::new(GpuDescent { points: self, rung: rung.clone(), row, descender }), Some(second)))
    }

    /// Times the parts of an epoch, for the rungs whose parts are of interest.
    fn extras(&self, lab: &Lab, so_far: &Run) -> Result<Vec<Part>> {
        let (Some(device), true) = (lab.device().cuda(), self.experiment.wants_parts(&self.problem)) else {
            return Ok(Vec::new());
        };
        let timed = |r: &&Rung| self.row(r).is_ok_and(|row| row.timed_in_parts);
        let mut parts = Vec::new();
        for rung in so_far.rungs.iter().filter(timed) {
            lab.tell(&Event::Preparing("timing the parts of an epoch"));
            let mut descender = self.descender(rung)?;
            let operations = descender.time_operations(device, lab.bench())?;
            let ablations = descender.time_ablations(device, lab.bench())?;
            let part_of = |group| {
                move |(name, samples): (String, warpbook_device::Samples)| Part {
                    rung: rung.id.to_string(),
                    problem: self.problem.clone(),
                    group,
                    name,
                    samples_us: samples.us,
                }
            };
            parts.extend(operations.into_iter().map(part_of(PartGroup::Operation)));
            parts.extend(ablations.into_iter().map(part_of(PartGroup::Ablation)));
        }
        Ok(parts)
    }
}

struct CpuDescent<'p> {
    points: &'p ProblemPoints<'p>,
    rung: Rung,
    threads: Threads,
    last: RefCell<Descent>,
}

impl Candidate for CpuDescent<'_> {
    fn launch(&self) -> warpbook_device::Result<()> {
        let (x, y) = self.points.host.training();
        let Settings { start, epochs, learning_rate, .. } = self.points.settings();
        *self.last.borrow_mut() = cpu::descend((&x, y), &start, learning_rate, epochs, LOG_EVERY, self.threads);
        Ok(())
    }

    fn check(&self) -> Result<Checked> {
        Ok(self.points.check(&self.rung, &self.last.borrow()))
    }
}

struct GpuDescent<'p> {
    points: &'p ProblemPoints<'p>,
    rung: Rung,
    row: RegressionRow,
    descender: Descender<'p>,
}

impl Candidate for GpuDescent<'_> {
    fn stream(&self) -> Option<&Stream> {
        Some(self.descender.stream())
    }

    fn reset(&self) -> warpbook_device::Result<()> {
        self.descender.reset()
    }

    /// Returns true, since every descent starts from the initial weights.
    fn resets_each_run(&self) -> bool {
        true
    }

    fn launch(&self) -> warpbook_device::Result<()> {
        self.descender.queue()
    }

    fn check(&self) -> Result<Checked> {
        Ok(self.points.check(&self.rung, &self.descender.result()?))
    }

    fn details(&self) -> Details {
        let d = &self.descender;
        let l2_bytes = self.points.lab.device().info().l2_bytes;
        let (traffic, flops) = self.row.traffic(&self.points.problem, l2_bytes, d.placement(), d.in_flight());
        Details { tile: Some(d.tile()), kernels: d.stats(), choice: d.choice(), traffic, flops, ..Details::default() }
    }
}
