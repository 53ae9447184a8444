//! The quantities that rungs are compared by: their values, words, axes and columns.

use crate::draw::MarkData;
use crate::draw::text::words::{
    bandwidth, bandwidth_tick, count, count_unit, item_rate, item_rate_unit, memory, memory_tick, memory_unit, plain,
    rate, rate_tick, rate_unit, time, time_tick, times,
};
use crate::record::names::{item, label};
use crate::record::verdict::verdict;
use warpbook_record::{Column, Measurement, Problem, Quantity, Run};

/// What peak memory is, for the remarks of a chart.
pub(crate) const OF_PEAK_MEMORY: &str = "Peak memory: the most of the device's memory that was held at once.";

/// A quantity as a record speaks of it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Measure {
    pub(crate) quantity: Quantity,
    /// What items are called; empty where the record does not say.
    item: String,
}

impl Measure {
    pub(crate) fn new(run: &Run, quantity: Quantity) -> Self {
        Self { quantity, item: item(run) }
    }

    /// The rate that is shown next to times: the headline, or the first rate that the record offers, or effective bandwidth.
    pub(crate) fn rate(run: &Run) -> Self {
        let d = &run.descriptor;
        let mut known = std::iter::once(&d.headline).chain(&d.quantities).copied();
        Self::new(run, known.find(|q| is_rate(*q)).unwrap_or(Quantity::Bandwidth))
    }

    /// This one where it is a rate, else that of the record.
    pub(crate) fn or_rate(&self, run: &Run) -> Self {
        if is_rate(self.quantity) { self.clone() } else { Self::rate(run) }
    }

    /// The column of the ladder's table that has it.
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

    /// Whether it is a time, or made of one.
    pub(crate) fn is_timed(&self) -> bool {
        self.quantity != Quantity::PeakMemory
    }

    /// Whether less of it is better.
    pub(crate) fn less_is_better(&self) -> bool {
        matches!(self.quantity, Quantity::Time | Quantity::PeakMemory)
    }

    /// The median in microseconds of a measurement that has the figure, or in words why there is nothing to draw.
    pub(crate) fn verdict(&self, run: &Run, m: &Measurement) -> Result<f64, String> {
        let us = verdict(run, m)?;
        if self.is_timed() || peak_bytes(m).is_some() { Ok(us) } else { Err("not counted".into()) }
    }

    /// What a mark says of a measurement.
    pub(crate) fn data(&self, m: &Measurement, value: String) -> MarkData {
        let data = MarkData::measured(m, value);
        // Samples are of times.
        if self.is_timed() { data } else { MarkData { spread: String::new(), samples: 0, ..data } }
    }

    /// Why a problem has no such figure, in a sentence.
    pub(crate) fn lacking(&self, run: &Run, problem: &Problem) -> Option<String> {
        let of = label(problem);
        match self.quantity {
            Quantity::Bandwidth if problem.bytes == 0 => {
                Some(format!("No bytes are known of {of}, so it has no bandwidth."))
            }
            Quantity::Throughput if problem.flops == 0 => {
                Some(format!("No operations are known of {of}, so it has no FLOP/s."))
            }
            Quantity::ItemRate if problem.items.unwrap_or(0) == 0 => {
                Some(format!("No items are known of {of}, so it has no {}.", self.name()))
            }
            Quantity::PeakMemory
                if run.measurements.iter().all(|m| m.problem != *problem || peak_bytes(m).is_none()) =>
            {
                Some(format!("No peak memory was counted of {of}."))
            }
            _ => None,
        }
    }

    /// Its value where all of the work takes so many microseconds; a speed-up is over the baseline's time, and 1 without one. No time
    /// says how much memory is held.
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

    /// Its value of a rung's time; the rung's operations may be fewer than the work's.
    pub(crate) fn of(&self, m: &Measurement, us: f64, baseline: Option<f64>) -> f64 {
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

    /// As a title has it.
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

    /// The header of a column of plain numbers, and what values are divided by there.
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

    /// The caption of an axis up to a value, and how its ticks are written.
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

/// What a quantity is called in a record's headings and controls: "time", "speed-up", "effective bandwidth", "FLOP/s", "images/s",
/// "peak memory".
#[must_use]
pub fn quantity_name(run: &Run, quantity: Quantity) -> String {
    Measure::new(run, quantity).name()
}

/// The rate of a measurement that a record shows next to its time, as "3.82 TB/s" or "742 TFLOP/s"; `None` where it has no time
/// or the problem no such figure.
#[must_use]
pub fn rate_text(run: &Run, m: &Measurement) -> Option<String> {
    let (measure, us) = (Measure::rate(run), m.median_us()?);
    measure.lacking(run, &m.problem).is_none().then(|| measure.text(measure.of(m, us, None)))
}

/// What was counted of a measurement's memory.
pub(crate) fn peak_bytes(m: &Measurement) -> Option<f64> {
    m.peak_bytes.filter(|bytes| *bytes > 0).map(|bytes| bytes as f64)
}

fn is_rate(quantity: Quantity) -> bool {
    matches!(quantity, Quantity::Bandwidth | Quantity::Throughput | Quantity::ItemRate)
}

impl MarkData {
    /// Of a measurement, shown as so much.
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

    /// Of the marks of a problem.
    pub(crate) fn of_problem(problem: &Problem) -> Self {
        Self { problem: label(problem), ..Self::default() }
    }
}

/// The median absolute deviation as it is shown.
pub(crate) fn spread(mad: Option<f64>) -> String {
    mad.filter(|d| d.is_finite() && *d > 0.0).map_or(String::new(), |d| format!("± {}", time(d)))
}
