//! What a mark of a chart says of itself: attributes that a page reads, in a notebook as on a page.
//!
//! A mark is the innermost element with a `data-value`. What several marks share, as the problem of a ladder or the rung of a line, is said
//! once, by a group around them: a reader of the attributes looks at the mark and then outwards.

use crate::draw::text::clean;

/// The attributes of a mark, or of a group of marks; empty ones are left out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct MarkData {
    /// The rung's id.
    pub(crate) rung: String,
    /// The problem's label.
    pub(crate) problem: String,
    /// What the mark is called, where its series does not say it.
    pub(crate) name: String,
    /// What the legend calls those that are drawn alike.
    pub(crate) series: String,
    /// The value as it is shown; of a group empty.
    pub(crate) value: String,
    /// As "± 1.2 µs".
    pub(crate) spread: String,
    /// `true` if the mark is that of the fastest rung of a ladder that marks it.
    pub(crate) is_best: bool,
    /// How many samples the value is the median of; 0 where it is none.
    pub(crate) samples: u64,
    /// The series that an entry of the legend is for.
    pub(crate) legend: String,
    /// Where a plot is and what its axes are: see [`crate::draw::plot::ticks::plot_words`].
    pub(crate) plot: String,
}

impl MarkData {
    /// Of a line that values are held against.
    pub(crate) fn reference(value: impl Into<String>) -> Self {
        Self { value: value.into(), ..Self::default() }
    }

    /// Of an entry of the legend.
    pub(crate) fn legend(series: impl Into<String>) -> Self {
        Self { legend: series.into(), ..Self::default() }
    }

    /// The names and the values of the attributes that are not empty.
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

/// Takes the number of samples that most of the marks have out of these, for a group around all: the others say their own. 0 where a mark has none.
pub(crate) fn shared_samples(marks: &mut [MarkData]) -> u64 {
    if marks.iter().any(|f| f.samples == 0) {
        return 0;
    }
    let count = |samples: u64| marks.iter().filter(|f| f.samples == samples).count();
    let most = marks.iter().map(|f| f.samples).max_by_key(|samples| (count(*samples), *samples)).unwrap_or(0);
    marks.iter_mut().filter(|f| f.samples == most).for_each(|f| f.samples = 0);
    most
}

/// Takes out of the marks the problem that all of them have, for a group around them.
pub(crate) fn shared_problem<'a>(marks: impl Iterator<Item = &'a mut MarkData>) -> MarkData {
    let mut marks: Vec<&mut MarkData> = marks.collect();
    let problem = marks.iter().map(|f| &f.problem).find(|p| !p.is_empty()).cloned().unwrap_or_default();
    if marks.iter().any(|f| !f.problem.is_empty() && f.problem != problem) {
        return MarkData::default();
    }
    marks.iter_mut().for_each(|f| f.problem.clear());
    MarkData { problem, ..MarkData::default() }
}
