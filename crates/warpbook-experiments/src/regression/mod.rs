//! Fused linear regression: y = w x + b by batch gradient descent.

mod activity;
mod cpu;
mod cuda;
pub(crate) mod data;
mod prepared;
pub(crate) mod reference;

use crate::builders::{seeded, selects};
use prepared::ProblemPoints;
use warpbook_kernels::regression::{
    Descent, INITIAL, Line, MAX_FEATURES, RANGE, RegressionRow, STANDARD_FEATURES, STANDARD_POINTS, SWEEP_POINTS,
    TRUTH, decimal, rows,
};
use warpbook_lab::activity::Timelines;
use warpbook_lab::experiment::Prepared;
use warpbook_lab::settings::{self, Configurable, Preset, Selection, Setting, joined, list, parse_count, parse_real};
use warpbook_lab::{Error, Event, Experiment, Lab, Plan, Result};
use warpbook_record::{ChartKind, Column, Descriptor, Inputs, MemoryLevel, Problem, Run, Rung, SweepAxis};

/// Maximum number of epochs; each epoch takes two nodes of a graph.
const MAX_EPOCHS: u64 = 10_000;
/// Maximum number of points, however large the memory is.
const MAX_POINTS: u64 = 1 << 40;
/// Number of points and epochs in the emulator.
const EMULATED_POINTS: u64 = 3000;
const EMULATED_EPOCHS: u64 = 20;
/// Name of data with several features in a record's inputs.
const SEVERAL: &str = "several features";

/// The regression experiment with its settings. The defaults are the settings of the published record.
#[derive(Debug, Clone, PartialEq)]
pub struct Regression {
    points: Vec<u64>,
    features: u64,
    also: Vec<(u64, u64)>,
    epochs: u64,
    learning_rate: f32,
    noise: f32,
    seed: u64,
    line: Line,
    selection: Selection,
    parts: bool,
    timelines: bool,
    rows: Vec<RegressionRow>,
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
            line: Line::default(),
            selection: Selection::default(),
            parts: true,
            timelines: true,
            rows: rows(),
        }
    }
}

selects!(Regression);
seeded!(Regression, "Key of the random numbers.");

impl Regression {
    /// Creates the default experiment: 5 M points, 200 epochs, learning rate 0.01, noise 0.1, and every rung.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates the experiment with the sizes of the quick suite, which takes seconds on a GPU and well under a minute on two CPU cores.
    #[must_use]
    pub fn quick() -> Self {
        Self::default().points([100_000, 500_000, 1_000_000, 5_000_000])
    }

    /// Creates the experiment with the sizes of the published sweep: 100 k to 200 M points with one feature, and 5 M points with 16.
    #[must_use]
    pub fn sweep() -> Self {
        Self::default().points(SWEEP_POINTS).also(STANDARD_POINTS, STANDARD_FEATURES)
    }

    /// Sets the numbers of points, including test points. Each number gives one data set, and must be at least 2.
    #[must_use]
    pub fn points(mut self, points: impl IntoIterator<Item = u64>) -> Self {
        self.points = points.into_iter().collect();
        self
    }

    /// Sets the number of features, from 1 to 256. Each feature has a weight.
    #[must_use]
    pub fn features(mut self, features: u64) -> Self {
        self.features = features;
        self
    }

    /// Adds a data set with its own number of points and of features.
    #[must_use]
    pub fn also(mut self, points: u64, features: u64) -> Self {
        self.also.push((points, features));
        self
    }

    /// Returns the number of points and of features of each data set.
    fn sizes(&self) -> Vec<(u64, u64)> {
        self.points.iter().map(|p| (*p, self.features)).chain(self.also.iter().copied()).collect()
    }

    /// Sets the number of passes over the training points, from 1 to 10,000.
    #[must_use]
    pub fn epochs(mut self, epochs: u64) -> Self {
        self.epochs = epochs;
        self
    }

    /// Sets the learning rate of the descent, which must be above 0.
    #[must_use]
    pub fn learning_rate(mut self, learning_rate: f32) -> Self {
        self.learning_rate = learning_rate;
        self
    }

    /// Sets the standard deviation of the noise on y, which must not be negative.
    #[must_use]
    pub fn noise(mut self, noise: f32) -> Self {
        self.noise = noise;
        self
    }

    /// Sets the initial weights w and b. With several features, every weight starts at w.
    #[must_use]
    pub fn start(mut self, w: f32, b: f32) -> Self {
        self.line.start = (w, b);
        self
    }

    /// Sets the true line of the points, y = w x + b. With several features the weights are w, -w/2, w/3, -w/4 and so
    /// on.
    #[must_use]
    pub fn truth(mut self, w: f32, b: f32) -> Self {
        self.line.truth = (w, b);
        self
    }

    /// Sets the range of x for a single, evenly spaced feature, from `min` (inclusive) to `max` (exclusive).
    #[must_use]
    pub fn range(mut self, min: f32, max: f32) -> Self {
        self.line.range = (min, max);
        self
    }

    /// Selects a tile by id, for the rungs that have such a tile.
    #[must_use]
    pub fn tile(mut self, id: impl Into<String>) -> Self {
        self.selection.tile = Some(id.into());
        self
    }

    /// Sets whether the parts of an epoch are also timed.
    #[must_use]
    pub fn parts(mut self, parts: bool) -> Self {
        self.parts = parts;
        self
    }

    /// Sets whether the GPU's activity in an epoch is recorded after all timing. Once CUPTI has recorded, it slows down every later launch of the process, so a
    /// process that times more work should not record.
    #[must_use]
    pub fn timelines(mut self, timelines: bool) -> Self {
        self.timelines = timelines;
        self
    }

    /// Adds a rung after all others.
    #[must_use]
    pub fn row(mut self, row: RegressionRow) -> Self {
        self.rows.push(row);
        self
    }

    fn problem(&self, (points, features): (u64, u64)) -> Problem {
        let descent = Descent {
            points,
            train_points: data::train_points(points),
            features,
            epochs: self.epochs,
            learning_rate: decimal(self.learning_rate),
            noise: decimal(self.noise),
            seed: self.seed,
            line: self.line,
        };
        descent.problem()
    }

    fn all_rungs(&self) -> Vec<Rung> {
        self.rows.iter().map(|r| r.rung.clone()).collect()
    }

    /// Returns the row of a rung; for a variant, returns the row of its base rung.
    fn row_of(&self, rung: &Rung) -> Option<&RegressionRow> {
        let id = rung.variant_of.as_ref().unwrap_or(&rung.id);
        self.rows.iter().find(|r| r.rung.id == *id)
    }

    /// Returns true if the parts of an epoch are timed for a problem: for the standard size, or for the only size.
    fn wants_parts(&self, problem: &Problem) -> bool {
        let one_feature = problem.count("features").is_none();
        self.parts && one_feature && (self.sizes().len() == 1 || problem.size() == STANDARD_POINTS)
    }

    /// Returns an error unless the initial weights, the true line and the range are valid numbers.
    fn validate_line(&self) -> Result<()> {
        let setting = |text: String| Err(Error::Setting(text));
        let Line { start, truth, range } = self.line;
        for (what, (first, second)) in [("start", start), ("true line", truth), ("range", range)] {
            if !(first.is_finite() && second.is_finite()) {
                return setting(format!(
                    "A {what} of {first} and {second} has a number that is not finite: choose two that are."
                ));
            }
        }
        if range.0 >= range.1 {
            return setting(format!(
                "x cannot lie from {} on and below {}: name the smaller number first, as in --range 0,10.",
                range.0, range.1
            ));
        }
        if range != RANGE && self.sizes().iter().any(|(_, features)| *features > 1) {
            return setting("A range is for one feature; several are standard Gaussian numbers. Leave --range out, or all data sets with several features.".into());
        }
        Ok(())
    }

    /// Returns an error unless the points fit into the memory of the device, and into the memory of the host for the reference.
    fn fits(&self, lab: &Lab, points: u64, features: u64) -> Result<()> {
        let bytes = points.saturating_mul(4 * (features + 1));
        if let Some(device) = lab.device().cuda() {
            // All points need memory; the unfused rung also needs memory for pred and err of the training points.
            let intermediate = if features == 1 { data::train_points(points) * 8 } else { 0 };
            device.ensure_free(format!("A regression of {points} points"), bytes.saturating_add(intermediate))?;
        }
        let host = lab.host_memory_bytes();
        if host > 0 && bytes > host / 4 * 3 {
            return Err(Error::Device(warpbook_device::Error::OutOfMemory {
                what: format!("A regression of {points} points (its reference is computed on the CPU)"),
                needed: bytes,
                free: host / 4 * 3,
                total: host,
            }));
        }
        Ok(())
    }

    /// Returns one problem for each data set of the experiment.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        self.sizes().into_iter().map(|s| self.problem(s)).collect()
    }

    fn descriptor() -> Descriptor {
        use Column::{Check, Mad, Median, OfBound, PassTime, SpeedUp};
        Descriptor {
            axis: SweepAxis { caption: "points".into(), unit: "points".into(), doubling: false },
            columns: vec![Median, Mad, PassTime, SpeedUp, Column::Bandwidth, OfBound, Check],
            charts: vec![
                ChartKind::Ladder,
                ChartKind::Sweep,
                ChartKind::Roofline,
                ChartKind::Operations,
                ChartKind::Ablation,
                ChartKind::Loss,
                ChartKind::Timeline,
            ],
            pass: "epoch".into(),
            levels: vec![MemoryLevel::Dram, MemoryLevel::L2, MemoryLevel::Shared, MemoryLevel::Registers],
            loss: "mean squared error on the training points".into(),
            ..Descriptor::default()
        }
    }

    fn inputs(&self) -> Inputs {
        let ((w, b), (min, max)) = (self.line.truth, self.line.range);
        let one =
            format!("x evenly spaced on [{min}, {max}) in shuffled order, y = {w} x + {b} + Gaussian noise (Philox)");
        let several = format!("standard Gaussian x, y = sum of w x + {b} + Gaussian noise (Philox)");
        let has = |several: bool| self.sizes().iter().any(|(_, features)| (*features > 1) == several);
        match (has(false), has(true)) {
            (true, true) => Inputs::of_all(one).with(SEVERAL, several),
            (_, true) => Inputs::default().with(SEVERAL, several),
            _ => Inputs::of_all(one),
        }
    }

    /// Returns an error unless the settings are valid and the lab's device can hold the points.
    fn validate(&self, lab: Option<&Lab>) -> Result<()> {
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
            lab.map_or(Ok(()), |lab| self.fits(lab, points, features))?;
        }
        if self.epochs == 0 || self.epochs > MAX_EPOCHS {
            return setting(format!("{} epochs: choose from 1 to {MAX_EPOCHS}.", self.epochs));
        }
        if !(self.learning_rate > 0.0 && self.learning_rate.is_finite()) {
            return setting(format!(
                "A learning rate of {} does not descend: choose a number above 0, such as 0.01.",
                self.learning_rate
            ));
        }
        if !(self.noise >= 0.0 && self.noise.is_finite()) {
            return setting(format!(
                "A noise of {} is not a standard deviation: choose a number from 0 up.",
                self.noise
            ));
        }
        self.validate_line()?;
        self.selection.validate(&self.all_rungs())
    }
}

impl Experiment for Regression {
    fn plan(&self, lab: Option<&Lab>) -> Result<Plan> {
        self.validate(lab)?;
        let problems = self.problems();
        let standard = |p: &&Problem| p.size() == STANDARD_POINTS && p.count("features").is_none();
        Ok(Plan {
            title: "Fused linear regression".into(),
            descriptor: Self::descriptor(),
            inputs: self.inputs(),
            main_problem: problems.iter().find(standard).cloned(),
            ..settings::plan(self, problems, self.selection.select(self.all_rungs()))
        })
    }

    fn for_emulator(&self) -> Option<Box<dyn Experiment>> {
        let small = Self { also: Vec::new(), parts: false, timelines: false, ..self.clone() };
        Some(Box::new(small.points([EMULATED_POINTS]).epochs(EMULATED_EPOCHS)))
    }

    fn obstacle(&self, _: &Lab, rung: &Rung, problem: &Problem, _: &Run) -> Option<String> {
        let why = self.row_of(rung)?.obstacle(problem)?;
        let takes = self.rows.iter().find(|r| r.several_features && !r.rung.is_cpu());
        Some(takes.map_or(why.clone(), |r| format!("{why}; {} takes several", r.rung.id)))
    }

    fn activity(&self, lab: &Lab, measured: &Run) -> Result<Timelines> {
        let Some(device) = lab.device().cuda().filter(|_| self.timelines) else { return Ok(Timelines::default()) };
        lab.tell(&Event::Preparing("recording what the GPU does in an epoch"));
        activity::record(self, lab, device, measured)
    }

    fn prepare<'a>(&'a self, lab: &'a Lab, problem: &Problem) -> Result<Box<dyn Prepared + 'a>> {
        Ok(Box::new(ProblemPoints::draw(self, lab, problem)?))
    }
}

impl Configurable for Regression {
    const NAME: &'static str = "regression";
    const ABOUT: &'static str = "Fused linear regression: y = w x + b by batch gradient descent";
    const DETAILS: &'static str = "\
Fused linear regression: y = w x + b by batch gradient descent on the mean squared error. The points are drawn around \
y = 3 x + 2, or another line, by a seeded generator; 80 % of them are trained on, the rest tested. Each rung does the whole descent; it is \
checked against the same descent in f64.";
    const EXAMPLES: &'static str = "\
  warpbook run regression --quick
  warpbook run regression --points 100k,1M,10M --out sizes.json
  warpbook run regression --sweep --device cuda:1
  warpbook run regression --rungs 02_fused,04_fused_graph --samples 100 --budget 10
  warpbook run regression --losses          every logged loss
  warpbook run regression --start 0,0 --truth 0.5,-1 --range -5,5 --points 1M
  warpbook run regression --lr 0.1          too large: the rows say that the descent diverged, exit code 1";

    fn preset(preset: Preset) -> Self {
        match preset {
            Preset::Standard => Self::new(),
            Preset::Quick => Self::quick(),
            Preset::Sweep => Self::sweep(),
        }
    }

    fn offered() -> Vec<Setting<Self>> {
        let [rungs, tile] = Selection::settings();
        vec![
            Setting {
                name: "points",
                value: Some("N[,N..]"),
                help: "Points of a data set, test points included; several with commas. k, M, G and underscores are understood: 100k, \
                       5M, 5_000_000. [default: 5M, with --quick 100k,500k,1M,5M]",
                set: |e, text| Ok(e.points(list(text, parse_count)?)),
                get: |e| Some(joined(e.points.iter().map(u64::to_string))),
            },
            Setting {
                name: "features",
                value: Some("N"),
                help: "Number of features of a point, 1 to 256; each has its own weight, in addition to b. [default: 1]",
                set: |e, text| Ok(e.features(parse_count(text)?)),
                get: |e| (e.features != 1).then(|| e.features.to_string()),
            },
            Setting {
                name: "also",
                value: Some("NxF[,..]"),
                help: "More data sets, each with its own number of features, such as 5Mx16.",
                set: |mut e, text| {
                    e.also = list(text, parse_size)?;
                    Ok(e)
                },
                get: |e| {
                    let also = joined(e.also.iter().map(|(n, f)| format!("{n}x{f}")));
                    (!also.is_empty()).then_some(also)
                },
            },
            Setting {
                name: "epochs",
                value: Some("N"),
                help: "Passes over the training points, 1 to 10000. [default: 200]",
                set: |e, text| Ok(e.epochs(parse_count(text)?)),
                get: |e| Some(e.epochs.to_string()),
            },
            Setting {
                name: "lr",
                value: Some("R"),
                help: "Learning rate: the step width of the descent, above 0. [default: 0.01]",
                set: |e, text| Ok(e.learning_rate(parse_real(text)?)),
                get: |e| Some(e.learning_rate.to_string()),
            },
            Setting {
                name: "noise",
                value: Some("S"),
                help: "Standard deviation of the Gaussian noise on y, from 0. [default: 0.1]",
                set: |e, text| Ok(e.noise(parse_real(text)?)),
                get: |e| Some(e.noise.to_string()),
            },
            Self::seed_setting("Seed of the random numbers. [default: 1]"),
            Setting {
                name: "start",
                value: Some("W,B"),
                help: "Weights before the first epoch; with several features each of them begins at W. [default: 0.83,0.7645]",
                set: |e, text| parse_pair(text).map(|(w, b)| e.start(w, b)),
                get: |e| pair(e.line.start, INITIAL),
            },
            Setting {
                name: "truth",
                value: Some("W,B"),
                help: "The line y = W x + B that the points are drawn around; with several features their weights are W, -W/2, W/3, -W/4 \
                       and so on. [default: 3,2]",
                set: |e, text| parse_pair(text).map(|(w, b)| e.truth(w, b)),
                get: |e| pair(e.line.truth, TRUTH),
            },
            Setting {
                name: "range",
                value: Some("MIN,MAX"),
                help: "Range of x, evenly spaced, with one feature: from MIN on, below MAX. [default: 0,10]",
                set: |e, text| parse_pair(text).map(|(min, max)| e.range(min, max)),
                get: |e| pair(e.line.range, RANGE),
            },
            Setting {
                name: "no-parts",
                value: None,
                help: "Leave out the timing of an epoch's parts.",
                set: |e, _| Ok(e.parts(false)),
                get: |e| (!e.parts).then(String::new),
            },
            rungs,
            tile,
        ]
    }
}

/// Parses the number of points and of features, such as 5Mx16.
fn parse_size(text: &str) -> Result<(u64, u64), String> {
    let (points, features) = text
        .split_once(['x', 'X', '×'])
        .ok_or_else(|| format!("`{text}` is not a size: write points, an x and features, such as 5Mx16"))?;
    Ok((parse_count(points)?, parse_count(features)?))
}

/// Parses two numbers separated by a comma, such as 0.83,0.7645.
fn parse_pair(text: &str) -> Result<(f32, f32), String> {
    match list(text, parse_real)?[..] {
        [first, second] => Ok((first, second)),
        _ => Err(format!("`{text}` is not two numbers: write them with a comma between them, such as 0.5,-1")),
    }
}

/// Formats two numbers for [`parse_pair`]; `None` if they have their default values.
fn pair(own: (f32, f32), usual: (f32, f32)) -> Option<String> {
    (own != usual).then(|| format!("{},{}", own.0, own.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        let check = |text: &str, expect: Option<(u64, u64)>| assert_eq!(parse_size(text).ok(), expect, "{text}");
        check("5Mx16", Some((5_000_000, 16)));
        check("1000 x 3", Some((1000, 3)));
        check("5M", None);
        check("x", None);
        check("5Mx", None);
        check("5x3x2", None);
    }

    #[test]
    fn pairs_are_read() {
        let check = |text: &str, expect: Option<(f32, f32)>| assert_eq!(parse_pair(text).ok(), expect, "{text}");
        check("0.5,-1", Some((0.5, -1.0)));
        check("-5, 5", Some((-5.0, 5.0)));
        check("1", None);
        check("1,2,3", None);
        check("1,b", None);
    }
}
