//! Data attributes of a chart's marks, which a page or a notebook reads.
//!
//! A mark is the innermost element with a `data-value`. Attributes that several marks share, such as the problem of a ladder or the rung of a line, are on a
//! group around them, so code that reads a mark must also look at the elements around it.

use crate::draw::text::clean;

/// The attributes of a mark, or of a group of marks; empty attributes are left out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct MarkData {
    /// Id of the rung.
    pub(crate) rung: String,
    /// Label of the problem.
    pub(crate) problem: String,
    /// Name of the mark, if it differs from the series.
    pub(crate) name: String,
    /// Legend name that similar marks share.
    pub(crate) series: String,
    /// Value as shown; empty for a group.
    pub(crate) value: String,
    /// Spread, such as "± 1.2 µs".
    pub(crate) spread: String,
    /// True for the mark of the fastest rung, if the ladder marks it.
    pub(crate) is_best: bool,
    /// Number of samples behind a median; 0 for other values.
    pub(crate) samples: u64,
    /// Series of a legend entry.
    pub(crate) legend: String,
    /// Position and axes of a plot: see [`crate::draw::plot::ticks::plot_words`].
    pub(crate) plot: String,
}

impl MarkData {
    /// Makes the data of a reference line.
    pub(crate) fn reference(value: impl Into<String>) -> Self {
        Self { value: value.into(), ..Self::default() }
    }

    /// Makes the data of a legend entry.
    pub(crate) fn legend(series: impl Into<String>) -> Self {
        Self { legend: series.into(), ..Self::default() }
    }

    /// Returns the names and the values of the attributes that are not empty.
    pub(crate) fn attributes(&self) -> Vec<(&'static str, String)> {
        let samples = if self.samples > 0 { self.samples.to_string() } else { String::new() };
        let best = if self.is_best { "fastest".to_owned() } else { String::new() };
        let all = [
            ("rung", &self.rung),
            ("problem", &self.problem),
            ("name", &self.name),
            ("series", &self.series),
            ("value", &self.value),
            ("spread", &self.spread),
            ("samples", &samples),
            ("best", &best),
            ("legend", &self.legend),
            ("plot", &self.plot),
        ];
        all.into_iter().map(|(name, value)| (name, clean(value))).filter(|(_, value)| !value.is_empty()).collect()
    }
}

/// Removes the most frequent number of samples from these marks and returns it, for a group around all of them; marks with other numbers keep theirs. Returns 0
/// if some mark has no samples.
pub(crate) fn shared_samples(marks: &mut [MarkData]) -> u64 {
    if marks.iter().any(|f| f.samples == 0) {
        return 0;
    }
    let count = |samples: u64| marks.iter().filter(|f| f.samples == samples).count();
    let most = marks.iter().map(|f| f.samples).max_by_key(|samples| (count(*samples), *samples)).unwrap_or(0);
    marks.iter_mut().filter(|f| f.samples == most).for_each(|f| f.samples = 0);
    most
}

/// Removes the problem that all marks share and returns it, for a group around them.
pub(crate) fn shared_problem<'a>(marks: impl Iterator<Item = &'a mut MarkData>) -> MarkData {
    let mut marks: Vec<&mut MarkData> = marks.collect();
    let problem = marks.iter().map(|f| &f.problem).find(|p| !p.is_empty()).cloned().unwrap_or_default();
    if marks.iter().any(|f| !f.problem.is_empty() && f.problem != problem) {
        return MarkData::default();
    }
    marks.iter_mut().for_each(|f| f.problem.clear());
    MarkData { problem, ..MarkData::default() }
}
