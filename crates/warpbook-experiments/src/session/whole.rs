//! Repeats complete training runs with different seeds. Each run is a sample of the record, with its time and accuracy.

use super::{recorder, words};
use warpbook_lab::{Lab, driver};
use warpbook_nn::train::{Place, Recipe, Samples};
use warpbook_record::{
    ChartKind, Check, Column, Descriptor, Dtype, L2State, Measurement, Outcome, Policy, Problem, Quantity, Right, Run,
    Size, TimedBy, count, setting,
};

/// Percentage by which rounding may lower a mean that equals the target.
const ROUNDING: f64 = 1e-10;

/// The time span that is measured for a training run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timed {
    /// Timed from the moment when the images are on the device until the accuracy is on the host.
    AtOnce,
    /// Timed from the start of the process until it ends.
    Process,
}

impl Timed {
    /// Returns a phrase that names the start of the timed span.
    fn begins(self) -> &'static str {
        match self {
            Self::AtOnce => "images on the device",
            Self::Process => "the start of a process",
        }
    }

    fn note(self) -> &'static str {
        match self {
            Self::AtOnce => {
                "A sample is a whole training, from images on the device to the accuracy on the host: initial weights, all steps, one evaluation. Kernels \
                 are compiled and images copied before."
            }
            Self::Process => {
                "A sample is a whole process that trains, from its start to its end, by the clock of the process that started it. One process before the \
                 first is not counted: it compiles the kernels that the cache lacks."
            }
        }
    }
}

/// A training run that is repeated with several seeds, with facts for its record.
#[derive(Debug, Clone)]
pub struct WholeTraining<'a> {
    /// The recipe, with the first seed.
    pub recipe: &'a Recipe,
    /// The device that trains, with its options.
    pub place: &'a Place,
    /// Samples for training.
    pub train: Samples<'a>,
    /// Samples for testing.
    pub test: Samples<'a>,
    /// True if the test samples are a part of the original training set that is not used for training.
    pub held_out: bool,
    /// A description of the images for files that have none, such as "recompressed as JPEG q75".
    pub data_note: Option<&'a str>,
    /// The time span that is measured.
    pub timed: Timed,
    /// Mean accuracy to reach, in percent; `None` if the accuracy is not checked.
    pub target: Option<f64>,
    /// Number of training runs.
    pub trainings: u64,
    /// The command that repeats the training runs.
    pub command: String,
}

impl WholeTraining<'_> {
    fn dtype(&self) -> Dtype {
        match self.place {
            Place::Cpu => Dtype::F32,
            Place::Cuda(_, options) => options.precision.products(),
        }
    }

    /// Returns a name for the images that does not claim more than is known.
    fn data(&self) -> String {
        words::data_label(self.train, self.data_note)
    }

    /// Returns the problem. Trainings with different numbers of steps do the same work if they reach the same accuracy.
    /// Without a target accuracy, the number of steps is the work.
    fn problem(&self) -> Problem {
        let Self { recipe, train, test, .. } = *self;
        let (dtype, from, data) = (self.dtype(), self.timed.begins(), self.data());
        let steps = recipe.total_steps(train.len());
        let mut sizes = vec![
            setting("recipe", recipe.name.as_str()),
            setting("data", data.as_str()),
            count("samples", train.len() as u64, "images"),
            count(if self.held_out { "held_out" } else { "test_samples" }, test.len() as u64, "images"),
            count("batch", recipe.batch as u64, "images"),
        ];
        let views = words::more_views(recipe.views);
        if views.is_some() {
            sizes.push(setting("views", recipe.views.name()));
        }
        sizes.push(setting("from", from));
        let name = &recipe.name;
        let (goal, short) = match self.target {
            Some(target) => {
                sizes.push(Size { name: TARGET.into(), value: target.into(), unit: Some("%".into()) });
                (format!("{name} to {target} %"), format!("{name} {target} %"))
            }
            None => {
                sizes.push(count("steps", steps, ""));
                let steps = if steps == 1 { "1 step".into() } else { format!("{steps} steps") };
                (format!("{name}, {steps}"), format!("{name} {steps}"))
            }
        };
        let seen = views.map_or_else(String::new, |views| format!(", {views}"));
        let short = format!("{short}{seen}");
        let label = format!("{goal} in {}{seen}, from {from}; {data}", dtype.label());
        Problem::new(label, short, sizes, dtype).with(|p| {
            if self.target.is_none() {
                let items = steps.saturating_mul(recipe.batch as u64);
                p.flops = recipe.network.training_flops().saturating_mul(items);
                p.items = Some(items);
            }
        })
    }
}

/// Name of the count of a problem that stores the accuracy to reach.
const TARGET: &str = "accuracy";

/// A record of complete training runs, each of which adds a sample.
#[derive(Debug, Clone)]
pub struct WholeTrainings {
    run: Run,
    seed: u64,
    /// Number of notes that are not about the samples.
    notes: usize,
}

impl WholeTrainings {
    /// Creates a record without samples.
    #[must_use]
    pub fn new(lab: &Lab, whole: &WholeTraining<'_>) -> Self {
        use Column::{Accuracy, Check, Mad, Median, Samples};
        let (recipe, problem) = (whole.recipe, whole.problem());
        let rung = recorder::rung(whole.place, recipe);
        let told = words::recipe(recipe, &whole.place.to_string()).into_iter().filter(|(name, _)| name != "seed");
        let mut told: Vec<String> = told.map(|(name, what)| format!("{name}: {what}")).collect();
        let steps = recipe.total_steps(whole.train.len());
        told.push(format!("steps of each training: {steps}"));
        let mut notes = vec![whole.timed.note().to_owned(), format!("What was trained: {}.", told.join("; "))];
        notes.extend(words::data_warning(whole.train, whole.data_note));
        if whole.held_out {
            notes.push("Judged by images held out of the training images, not by the test images.".into());
        }
        if whole.target.is_none() {
            notes.push("No accuracy was asked for (--to), so nothing was checked.".into());
        }
        let policy = Policy {
            timed_by: TimedBy::WallClock,
            l2: L2State::Warm,
            warmup: u32::from(whole.timed == Timed::Process),
            samples: u32::try_from(whole.trainings).unwrap_or(u32::MAX),
            budget_s: f64::INFINITY,
            batch_below_us: 0.0,
            inputs: words::inputs(whole.train),
        };
        let mut run = Run {
            command: whole.command.clone(),
            descriptor: Descriptor {
                quantities: vec![Quantity::Time, Quantity::SpeedUp],
                columns: vec![Median, Mad, Accuracy, Check, Samples],
                charts: vec![ChartKind::Ladder],
                item: "images".into(),
                sample: "seeds".into(),
                levels: Vec::new(),
                ..Descriptor::default()
            },
            problems: vec![problem.clone()],
            main_problem: Some(problem.id.clone()),
            measurements: vec![Measurement {
                steps: Some(steps),
                ..Measurement::without_samples(rung.id.clone(), problem, Outcome::Measured)
            }],
            rungs: vec![rung],
            notes,
            ..driver::begun(lab, "time-to-accuracy", "Time to an accuracy", policy)
        };
        driver::collect_sources(&mut run, &[]);
        Self::from_record(run, recipe.seed)
    }

    /// Continues an empty record made by [`WholeTrainings::new`], possibly in another process.
    #[must_use]
    pub fn from_record(run: Run, first_seed: u64) -> Self {
        Self { notes: run.notes.len(), run, seed: first_seed }
    }

    /// Adds the training run with the next seed: its time in seconds, and its number of correctly classified test
    /// samples.
    pub fn push(&mut self, seconds: f64, right: Right) {
        let Some(m) = self.run.measurements.first_mut() else { return };
        m.test.push(right);
        let mut samples = std::mem::take(&mut m.samples_us);
        samples.push(seconds * 1e6);
        m.set_samples(samples.clone(), samples);
        m.check = m.problem.real(TARGET).map(|target| check(target, m.accuracy()));
        let (done, wanted) = (m.test.len() as u64, u64::from(self.run.policy.samples));
        let seeds = match done {
            1 => format!("The sample is of the seed {}.", self.seed),
            n => format!("The samples are of the seeds {} to {}, in this order.", self.seed, self.seed + (n - 1)),
        };
        self.run.notes.truncate(self.notes);
        self.run.notes.push(seeds);
        if done < wanted {
            self.run.notes.push(format!("{done} of {wanted} trainings are done."));
        }
    }

    /// Stores the current clocks of the lab's device in the record.
    pub fn note_clocks(&mut self, lab: &Lab) {
        self.run.environment.clocks = lab.watch().report();
    }

    /// Returns the record so far.
    #[must_use]
    pub fn record(&self) -> &Run {
        &self.run
    }

    /// Returns the only measurement, which has a time in microseconds and an accuracy for each training run.
    ///
    /// # Panics
    /// Panics only if the record was not made by [`WholeTrainings::new`].
    #[must_use]
    pub fn measurement(&self) -> &Measurement {
        &self.run.measurements[0]
    }
}

/// Checks that a mean accuracy (from 0 to 1) is at least the target (in percent). The error is the difference to the
/// target.
pub(crate) fn check(target: f64, accuracy: Option<(f64, f64)>) -> Check {
    let mean = accuracy.map_or(f64::NAN, |(mean, _)| 100.0 * mean);
    // `min` would replace a NaN by the target.
    let got = if mean >= target - ROUNDING { target } else { mean };
    Check::compare(format!("a mean accuracy of {target} % or more"), &[(got, target)], 0.0, 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpbook_data::synthetic_digits;
    use warpbook_nn::train::Views;

    #[test]
    fn a_mean_reaches_an_accuracy_or_lacks_some_of_it() {
        let check_of = |target: f64, all: &[u64]| {
            let test = all.iter().map(|correct| Right { correct: *correct, of: 10_000 }).collect();
            let p = Problem::new("", "", Vec::new(), Dtype::F32);
            check(target, Measurement { test, ..Measurement::without_samples("", p, Outcome::Measured) }.accuracy())
        };
        // The mean equals the target, apart from rounding errors in the sum.
        for target in [99.0, 99.1, 90.42, 70.7] {
            let right = (target * 100.0f64).round() as u64;
            assert!(check_of(target, &[right; 3]).passed, "{target}");
            assert!(
                check_of(target, &[right, right, right + 1]).passed && check_of(target, &[right - 2, right + 2]).passed
            );
            let missed = check_of(target, &[right, right, right - 1]);
            assert!(!missed.passed && (missed.max_abs_error - 1.0 / 300.0).abs() < 1e-9, "{missed:?}");
        }
        assert_eq!(check_of(99.0, &[9950]).max_abs_error, 0.0);
        assert!(!check_of(99.0, &[]).passed, "of no training nothing is known");
        assert!(!check(99.0, Some((f64::NAN, 0.0))).passed);
    }

    #[test]
    fn a_record_has_a_sample_for_each_training() {
        let (lab, digits) = (Lab::open("cpu").unwrap(), synthetic_digits(64, 32, 1));
        let recipe = Recipe { seed: 5, batch: 16, epochs: 3, ..Recipe::mnist() };
        let place = Place::Cpu;
        let whole = |target, data_note| WholeTraining {
            recipe: &recipe,
            place: &place,
            train: (&digits.train).into(),
            test: (&digits.test).into(),
            held_out: false,
            data_note,
            timed: Timed::AtOnce,
            target,
            trainings: 2,
            command: "warpbook".into(),
        };
        let mut all = WholeTrainings::new(&lab, &whole(Some(75.0), Some("upside down")));
        all.push(2.0, Right { correct: 22, of: 32 });
        let early = all.record().clone();
        assert!(early.notes.last().is_some_and(|n| n == "1 of 2 trainings are done."), "{:?}", early.notes);
        assert!(!all.measurement().is_valid(), "22 of 32 are less");
        all.push(4.0, Right { correct: 26, of: 32 });
        let run = Run::from_json(all.record().to_json().unwrap().as_bytes()).unwrap();
        let m = &run.measurements[0];
        assert!(m.is_valid() && run.main_problem() == Some(&m.problem), "{m:?}");
        assert_eq!((m.median_us(), m.samples_total), (Some(3e6), 2));
        assert_eq!(m.accuracy().map(|(mean, _)| mean), Some(0.75));
        assert_eq!(m.problem.label, "mnist to 75 % in fp32, from images on the device; synthetic digits, upside down");
        assert!(m.problem.items.is_none() && m.problem.count("steps").is_none());
        assert!(run.notes.last().is_some_and(|n| n == "The samples are of the seeds 5 to 6, in this order."));
        assert!(run.notes.iter().any(|n| n.contains("synthetic images")), "{:?}", run.notes);

        let mut unasked = WholeTrainings::new(&lab, &WholeTraining { trainings: 1, ..whole(None, None) });
        unasked.push(1.0, Right { correct: 1, of: 32 });
        let m = unasked.measurement();
        assert!(m.check.is_none() && unasked.record().notes.iter().any(|n| n.contains("--to")));
        // Three epochs have four batches each.
        assert_eq!((m.problem.count("steps"), m.problem.items), (Some(12), Some(192)));
        assert_eq!(m.problem.short, "mnist 12 steps");

        // Other views of the test images make a different problem.
        let views = Recipe { views: Views::Flips, ..recipe.clone() };
        let mirrored = WholeTrainings::new(&lab, &WholeTraining { recipe: &views, ..whole(Some(75.0), None) });
        let problem = &mirrored.measurement().problem;
        assert_eq!(problem.short, "mnist 75 %, mirrored views");
        assert_eq!(problem.text("views"), Some("flips"));
        assert!(problem.label.starts_with("mnist to 75 % in fp32, mirrored views, from images"), "{}", problem.label);
    }
}
