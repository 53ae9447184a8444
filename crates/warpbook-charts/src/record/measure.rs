//! The quantities by which rungs are compared: their values, names, axes and columns.

use crate::draw::MarkData;
use crate::draw::text::words::{
    bandwidth, bandwidth_tick, count, count_unit, item_rate, item_rate_unit, memory, memory_tick, memory_unit, plain,
    rate, rate_tick, rate_unit, time, time_tick, times,
};
use crate::record::names::{item, label};
use crate::record::verdict::verdict;
use warpbook_record::{Column, Measurement, Problem, Quantity, Run};

/// The definition of peak memory that charts show as a remark.
pub(crate) const OF_PEAK_MEMORY: &str = "Peak memory: the most device memory in use at any time.";

/// A quantity with the words that a record uses for it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Measure {
    pub(crate) quantity: Quantity,
    /// Plural noun for items; empty if the record has none.
    item: String,
}

impl Measure {
    pub(crate) fn new(run: &Run, quantity: Quantity) -> Self {
        Self { quantity, item: item(run) }
    }

    /// Returns the rate shown beside times: the headline quantity if it is a rate, else the first rate that the record
    /// offers, else effective bandwidth.
    pub(crate) fn rate(run: &Run) -> Self {
        let d = &run.descriptor;
        let mut known = std::iter::once(&d.headline).chain(&d.quantities).copied();
        Self::new(run, known.find(|q| is_rate(*q)).unwrap_or(Quantity::Bandwidth))
    }

    /// Returns this quantity if it is a rate, else the record's rate.
    pub(crate) fn or_rate(&self, run: &Run) -> Self {
        if is_rate(self.quantity) { self.clone() } else { Self::rate(run) }
    }

    /// Returns the quantity's column in the ladder's table.
    pub(crate) fn column(&self) -> Column {
        match self.quantity {
            Quantity::Time => Column::Median,
            Quantity::SpeedUp => Column::SpeedUp,
            Quantity::Bandwidth => Column::Bandwidth,
            Quantity::Throughput => Column::Throughput,
            Quantity::ItemRate => Column::ItemRate,
            Quantity::PeakMemory => Column::PeakMemory,
        }
    }

    /// Returns true if the quantity is a time or derived from one.
    pub(crate) fn is_timed(&self) -> bool {
        self.quantity != Quantity::PeakMemory
    }

    /// Returns true if smaller values are better.
    pub(crate) fn less_is_better(&self) -> bool {
        matches!(self.quantity, Quantity::Time | Quantity::PeakMemory)
    }

    /// Returns the median in microseconds of a measurement that has the quantity, or the reason why nothing can be
    /// drawn.
    pub(crate) fn verdict(&self, run: &Run, m: &Measurement) -> Result<f64, String> {
        let us = verdict(run, m)?;
        if self.is_timed() || peak_bytes(m).is_some() { Ok(us) } else { Err("not counted".into()) }
    }

    /// Returns the data of a measurement's mark.
    pub(crate) fn data(&self, m: &Measurement, value: String) -> MarkData {
        let data = MarkData::measured(m, value);
        // Spread and number of samples belong to times only.
        if self.is_timed() { data } else { MarkData { spread: String::new(), samples: 0, ..data } }
    }

    /// Returns the reason why a problem lacks the quantity, in a sentence.
    pub(crate) fn lacking(&self, run: &Run, problem: &Problem) -> Option<String> {
        let problem_label = label(problem);
        match self.quantity {
            Quantity::Bandwidth if problem.bytes == 0 => {
                Some(format!("The bytes of {problem_label} are not known, so it has no bandwidth."))
            }
            Quantity::Throughput if problem.flops == 0 => {
                Some(format!("The operations of {problem_label} are not known, so it has no FLOP/s."))
            }
            Quantity::ItemRate if problem.items.unwrap_or(0) == 0 => {
                Some(format!("The items of {problem_label} are not known, so it has no {}.", self.name()))
            }
            Quantity::PeakMemory
                if run.measurements.iter().all(|m| m.problem != *problem || peak_bytes(m).is_none()) =>
            {
                Some(format!("Peak memory was not counted for {problem_label}."))
            }
            _ => None,
        }
    }

    /// Returns the value if all of the work takes `us` microseconds. A speed-up is relative to the baseline's time, and
    /// 1 if there is no baseline. Memory cannot be derived from a time.
    pub(crate) fn of_work(&self, problem: &Problem, us: f64, baseline: Option<f64>) -> f64 {
        let a_second = |amount: u64| amount as f64 / (us * 1e-6);
        match self.quantity {
            Quantity::Time => us,
            Quantity::SpeedUp => baseline.map_or(1.0, |b| b / us),
            Quantity::Bandwidth => a_second(problem.bytes),
            Quantity::Throughput => a_second(problem.flops),
            Quantity::ItemRate => a_second(problem.items.unwrap_or(0)),
            Quantity::PeakMemory => f64::NAN,
        }
    }

    /// Returns the value for a rung's time; a rung may do fewer operations than the work has.
    pub(crate) fn value_of(&self, m: &Measurement, us: f64, baseline: Option<f64>) -> f64 {
        match self.quantity {
            Quantity::Throughput => m.operations() as f64 / (us * 1e-6),
            Quantity::PeakMemory => peak_bytes(m).unwrap_or(f64::NAN),
            _ => self.of_work(&m.problem, us, baseline),
        }
    }

    pub(crate) fn text(&self, value: f64) -> String {
        match self.quantity {
            Quantity::Time => time(value),
            Quantity::SpeedUp => times(value),
            Quantity::Bandwidth => bandwidth(value),
            Quantity::Throughput => rate(value),
            Quantity::ItemRate => item_rate(value, &self.item),
            Quantity::PeakMemory => memory(value),
        }
    }

    /// Returns the quantity's name in titles.
    pub(crate) fn name(&self) -> String {
        match self.quantity {
            Quantity::Time => "time".into(),
            Quantity::SpeedUp => "speed-up".into(),
            Quantity::Bandwidth => "effective bandwidth".into(),
            Quantity::Throughput => "FLOP/s".into(),
            Quantity::ItemRate => item_rate_unit(&self.item),
            Quantity::PeakMemory => "peak memory".into(),
        }
    }

    /// Returns the header of a column of plain numbers, and their divisor.
    pub(crate) fn in_file(&self) -> (String, f64) {
        match self.quantity {
            Quantity::Time => ("time (ms)".into(), 1e3),
            Quantity::SpeedUp => ("speed-up".into(), 1.0),
            Quantity::Bandwidth => ("effective bandwidth (GB/s)".into(), 1e9),
            Quantity::Throughput => ("TFLOP/s".into(), 1e12),
            Quantity::ItemRate => (self.name(), 1.0),
            Quantity::PeakMemory => ("peak memory (MiB)".into(), 1_048_576.0),
        }
    }

    /// Returns the caption of an axis that reaches up to a value, and the formatter of its ticks.
    pub(crate) fn axis(&self, high: f64, logarithmic: bool) -> (String, fn(f64) -> String) {
        match self.quantity {
            Quantity::Time => (self.name(), time_tick),
            Quantity::SpeedUp => (self.name(), |v| format!("{}×", plain(v))),
            Quantity::Bandwidth if logarithmic => (self.name(), bandwidth_tick),
            Quantity::Bandwidth => ("effective bandwidth in GB/s".into(), |v| plain(v / 1e9)),
            Quantity::Throughput if logarithmic => (self.name(), rate_tick),
            Quantity::Throughput => match rate_unit(high) {
                (_, name @ "TFLOP/s") => (name.into(), |v| plain(v / 1e12)),
                (_, name @ "GFLOP/s") => (name.into(), |v| plain(v / 1e9)),
                (_, name) => (name.into(), |v| plain(v / 1e6)),
            },
            Quantity::PeakMemory if logarithmic => (self.name(), memory_tick),
            Quantity::PeakMemory => match memory_unit(high) {
                (_, "GiB") => ("peak memory in GiB".into(), |v| plain(v / 1_073_741_824.0)),
                (_, "MiB") => ("peak memory in MiB".into(), |v| plain(v / 1_048_576.0)),
                (_, "KiB") => ("peak memory in KiB".into(), |v| plain(v / 1024.0)),
                _ => ("peak memory in bytes".into(), plain),
            },
            Quantity::ItemRate if logarithmic => (self.name(), count),
            Quantity::ItemRate => {
                let (scale, prefix) = count_unit(high);
                let tick: fn(f64) -> String = match scale {
                    1e9 => |v| plain(v / 1e9),
                    1e6 => |v| plain(v / 1e6),
                    1e3 => |v| plain(v / 1e3),
                    _ => plain,
                };
                (format!("{prefix}{}", self.name()), tick)
            }
        }
    }
}

/// Returns the name of a quantity for a record's headings and controls: "time", "speed-up", "effective bandwidth", "FLOP/s", "images/s", "peak
/// memory".
#[must_use]
pub fn quantity_name(run: &Run, quantity: Quantity) -> String {
    Measure::new(run, quantity).name()
}

/// Returns the rate that a record shows beside a measurement's time, such as "3.82 TB/s" or "742 TFLOP/s"; `None` if
/// the measurement has no time or the problem no such rate.
#[must_use]
pub fn rate_text(run: &Run, m: &Measurement) -> Option<String> {
    let (measure, us) = (Measure::rate(run), m.median_us()?);
    measure.lacking(run, &m.problem).is_none().then(|| measure.text(measure.value_of(m, us, None)))
}

/// Returns a measurement's peak memory in bytes, if it was counted.
pub(crate) fn peak_bytes(m: &Measurement) -> Option<f64> {
    m.peak_bytes.filter(|bytes| *bytes > 0).map(|bytes| bytes as f64)
}

fn is_rate(quantity: Quantity) -> bool {
    matches!(quantity, Quantity::Bandwidth | Quantity::Throughput | Quantity::ItemRate)
}

impl MarkData {
    /// Makes the data of a measurement with a shown value.
    pub(crate) fn measured(m: &Measurement, value: String) -> Self {
        Self {
            rung: m.rung.clone(),
            problem: label(&m.problem),
            value,
            spread: spread(m.mad_us()),
            samples: m.samples_total.max(m.samples_us.len() as u64),
            ..Self::default()
        }
    }

    /// Makes the data that all marks of a problem share.
    pub(crate) fn of_problem(problem: &Problem) -> Self {
        Self { problem: label(problem), ..Self::default() }
    }
}

/// Formats the median absolute deviation of the samples.
pub(crate) fn spread(mad: Option<f64>) -> String {
    mad.filter(|d| d.is_finite() && *d > 0.0).map_or(String::new(), |d| format!("± {}", time(d)))
}
