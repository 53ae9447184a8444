//! The page's view, kept in its address, so that a link shows the same view.

use super::problem_choice::ProblemChoice;
use crate::plot::trace::Shown;
use crate::record::Tab;
use std::collections::BTreeMap;
use warpbook_charts::{MAX_LABEL, MAX_RECORDS, Window};
use warpbook_record::{Problem, Quantity, Run};

/// The view that an address describes.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Link {
    /// Addresses of records to fetch; `?src=` may occur several times.
    pub sources: Vec<String>,
    /// The key of the record that is shown.
    pub record: Option<String>,
    /// The keys of the records ticked for comparison.
    pub ticked: Vec<String>,
    /// The reader's labels for ticked records, by their keys.
    pub labels: BTreeMap<String, String>,
    /// `true` if a comparison also shows ratios of figures that are not comparable.
    pub anyway: bool,
    /// `true` if a comparison divides out the drift of the rungs that did not change.
    pub normalised: bool,
    /// The tab that is shown.
    pub tab: Option<Tab>,
    /// The chosen problem.
    pub problem: Option<ProblemChoice>,
    /// The quantity that the ladder and the sweep draw, if the link names one.
    pub quantity: Option<Quantity>,
    /// The rung whose panel is open.
    pub rung: Option<String>,
    /// The zoomed window of a sweep or a roofline.
    pub window: Option<Window>,
    /// The state of the timeline: rung, visible interval, selection and search.
    pub traced: Shown,
    /// The rungs whose lines are highlighted in a sweep of many rungs.
    pub picked: Vec<String>,
    /// `true` if the panel shows the rung's whole source instead of its changes.
    pub whole: bool,
    /// `true` if all records are shown even though the link names some.
    pub overview: bool,
    /// The id of the class board's task; empty for the first task.
    pub board: Option<String>,
    /// `true` if the board leaves out the records that come with the page.
    pub opened_only: bool,
    /// `true` if the reader's report is shown.
    pub report: bool,
}

/// The subject of the page. When it changes, the reader starts at the top of the page again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum About {
    /// All records as an overview.
    Records,
    /// The class board.
    Board,
    /// The reader's report.
    Report,
    /// A comparison of records.
    Comparison,
    /// The record with this key; `None` while there is no record to show.
    Record(Option<String>),
}

impl Link {
    /// Returns the problem of a record to show: the chosen one, or else the record's main problem.
    pub fn problem_of<'a>(&self, run: &'a Run) -> Option<&'a Problem> {
        self.problem.as_ref().and_then(|c| c.find(run)).or_else(|| run.main_problem())
    }

    /// Returns `true` if all records are shown because the link asks for nothing else.
    pub fn shows_all(&self) -> bool {
        // One ticked record alone is the start of a selection, so the overview stays.
        let names_none = self.sources.is_empty() && self.ticked.len() < 2 && self.record.is_none();
        let asks_nothing =
            self.tab.is_none() && self.problem.is_none() && self.quantity.is_none() && self.rung.is_none();
        !self.is_apart() && (self.overview || (names_none && asks_nothing))
    }

    /// Returns `true` if the board, the report or a comparison is shown instead of a record.
    pub fn is_apart(&self) -> bool {
        self.board.is_some() || self.report || self.compares()
    }

    /// Returns `true` if records are compared.
    pub fn compares(&self) -> bool {
        self.tab == Some(Tab::Compare) && self.board.is_none() && !self.report && !self.overview
    }

    /// Returns the page's subject outside the overview; `record` is the record that would be shown.
    pub fn about(&self, record: Option<String>) -> About {
        match () {
            () if self.board.is_some() => About::Board,
            () if self.report => About::Report,
            () if self.compares() => About::Comparison,
            () => About::Record(record),
        }
    }

    /// Removes names from the link that the record does not have; returns a sentence about each.
    pub fn forget_unknown(&mut self, run: &Run) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut tell = |what: &str, name: &str| {
            wrong.push(format!("The link names {what} that the record does not have ({name}): another one is shown."));
        };
        if let Some(choice) = self.problem.take_if(|c| c.find(run).is_none()) {
            tell("a problem", &choice.pair().1);
        }
        if let Some(rung) = self.rung.take_if(|id| run.rung(id).is_none() && run.xrays.iter().all(|x| x.rung != *id)) {
            tell("a rung", &rung);
        }
        if let Some(rung) = self.traced.rung.take_if(|id| run.spans.iter().all(|s| s.rung != *id)) {
            tell("a rung's timeline", &rung);
        }
        wrong
    }

    /// Shows the class board at a task; an empty `task` means the first task.
    pub fn show_board(&mut self, task: String) {
        let opened_only = self.opened_only;
        self.show_all();
        (self.overview, self.board, self.opened_only) = (false, Some(task), opened_only);
    }

    /// Shows the report in place of a record.
    pub fn show_report(&mut self) {
        self.show_all();
        (self.overview, self.report) = (false, true);
    }

    /// Leaves the board, the report or the comparison and shows a record again.
    pub fn leave_apart(&mut self) {
        (self.board, self.report) = (None, false);
        self.tab = self.tab.take().filter(|t| *t != Tab::Compare);
    }

    /// Resets the zoom of plots and timelines, since the next view has other axes.
    pub fn show_whole_plots(&mut self) {
        (self.window, self.traced) = (None, Shown::default());
    }

    /// Shows all records; the addresses and ticks in the link stay.
    pub fn show_all(&mut self) {
        let (sources, ticked) = (std::mem::take(&mut self.sources), std::mem::take(&mut self.ticked));
        *self = Self { sources, ticked, overview: true, ..Self::default() };
    }

    /// Turns a link that only lists several addresses into a comparison, or into the class board if they are too many
    /// to compare.
    pub fn compare_sources(&mut self) {
        let says_nothing = self.ticked.is_empty() && self.tab.is_none() && self.record.is_none() && !self.overview;
        if self.sources.len() > MAX_RECORDS && says_nothing && !self.is_apart() {
            self.board = Some(String::new());
        } else if self.sources.len() > 1 && says_nothing && !self.is_apart() {
            self.ticked = self.sources.iter().map(|address| key_of(address)).collect();
            self.tab = Some(Tab::Compare);
        }
    }

    /// Gives a ticked record a label; an empty one removes the label.
    pub fn label(&mut self, key: String, label: &str) {
        let label: String = label.trim().chars().take(MAX_LABEL).collect();
        if label.is_empty() {
            // `remove` would add a kilobyte to the page, which removes from no other map of this kind.
            self.labels = std::mem::take(&mut self.labels).into_iter().filter(|(other, _)| *other != key).collect();
        } else {
            self.labels.insert(key, label);
        }
    }
}

/// Returns the key of the record at an address. The `@` distinguishes it from the keys of the page's own files.
pub fn key_of(address: &str) -> String {
    format!("@{address}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::sample_run;

    #[test]
    fn board_and_report_are_views_of_an_address() {
        let mut link = Link { sources: vec!["a".into()], rung: Some("x".into()), ..Link::default() };
        link.opened_only = true;
        link.show_board("matmul/m=1 n=1/H200".into());
        assert!(link.is_apart() && !link.shows_all() && link.rung.is_none());
        assert_eq!(link.query(), "?src=a&view=board&task=matmul/m=1+n=1/H200&opened=only");
        assert_eq!(Link::parse(&link.query()), link);
        link.show_board(String::new());
        assert_eq!(Link::parse(&link.query()).board.as_deref(), Some(""));
        link.show_report();
        assert_eq!((link.query().as_str(), link.board.clone()), ("?src=a&view=report", None));
        assert!(Link::parse(&link.query()).report && link.is_apart());
        link.show_all();
        assert!(link.shows_all() && !link.is_apart());
    }

    #[test]
    fn one_record_to_compare_is_chosen_among_all_and_two_are_a_page_of_their_own() {
        assert!(Link::parse("?compare=a.json").shows_all());
        assert!(!Link::parse("?compare=a.json&tab=compare").shows_all());
        let mut two = Link::parse("?compare=a&compare=b&tab=compare&record=c");
        assert!(two.compares() && two.is_apart() && two.about(None) == About::Comparison);
        two.leave_apart();
        assert!(!two.is_apart() && two.tab.is_none() && two.about(Some("c".into())) == About::Record(Some("c".into())));
        assert!(!Link::parse("?tab=compare&view=board").compares());
    }

    #[test]
    fn names_that_a_record_does_not_have_are_told_and_taken_out() {
        let run = sample_run();
        let mut link = Link::parse("?problem=nope&rung=gone&trace=none");
        let wrong = link.forget_unknown(&run);
        assert!(
            wrong.len() == 3 && wrong.iter().zip(["nope", "gone", "none"]).all(|(why, name)| why.contains(name)),
            "{wrong:?}"
        );
        assert_eq!(link, Link::default());
        assert!(Link::parse("?size=5000000&rung=02_fused").forget_unknown(&run).is_empty());
    }
}
