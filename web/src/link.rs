//! What the page shows, kept in its address, so that a link shows the same view.

use crate::library::Library;
use crate::trace::Shown;
use crate::zoom::{parse_window, window_text};
use std::collections::BTreeMap;
use warpbook_charts::{Chart, ChartError, MAX_LABEL, MAX_RECORDS, Options, Window};
use warpbook_record::{Breakdown, ChartKind, Descriptor, Measurement, Outcome, PartGroup, Problem, Quantity, Run};

/// A part of the page about a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tab {
    /// Each rung's figure of one quantity.
    Ladder,
    /// The same over several sizes.
    Sweep,
    /// Problems against rungs, each cell a ratio to the fastest library.
    HeatMap,
    /// Each rung below the ceilings of the device.
    Roofline,
    /// The losses of the trainings, and what else was logged of them.
    Loss,
    /// What a run and a pass are made of, what parts cost, tiles and transfers.
    Breakdown,
    /// What every SM did when.
    Xray,
    /// The roofline of kernels, device memory, clocks and power over time, hardware counters.
    Profile,
    /// Every figure.
    Table,
    /// A rung: its figures, its source and what it changed.
    Source,
    /// Where and with what the record was made.
    Environment,
    /// Two or more records side by side: a page of its own, and no part of a record.
    Compare,
}

impl Tab {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::Ladder,
        Self::Sweep,
        Self::HeatMap,
        Self::Roofline,
        Self::Loss,
        Self::Breakdown,
        Self::Xray,
        Self::Profile,
        Self::Table,
        Self::Source,
        Self::Environment,
        Self::Compare,
    ];

    /// Its name in an address.
    pub const fn id(self) -> &'static str {
        match self {
            Self::Ladder => "ladder",
            Self::Sweep => "sweep",
            Self::HeatMap => "heatmap",
            Self::Roofline => "roofline",
            Self::Loss => "loss",
            // As it was called first: links keep working.
            Self::Breakdown => "operations",
            Self::Xray => "xray",
            Self::Profile => "profile",
            Self::Table => "table",
            // As it was called first, too.
            Self::Source => "source",
            Self::Environment => "environment",
            Self::Compare => "compare",
        }
    }

    /// Its name on the page.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Ladder => "Ladder",
            Self::Sweep => "Sweep",
            Self::HeatMap => "Heat map",
            Self::Roofline => "Roofline",
            Self::Loss => "Loss",
            Self::Breakdown => "Breakdown",
            Self::Xray => "X-ray",
            Self::Profile => "Profile",
            Self::Table => "Table",
            Self::Source => "Climb",
            Self::Environment => "Environment",
            Self::Compare => "Compare",
        }
    }

    /// Whether what it shows is of one problem, which can be chosen.
    pub const fn has_problem(self) -> bool {
        !matches!(self, Self::Sweep | Self::HeatMap | Self::Source | Self::Environment | Self::Compare)
    }

    /// Whether what it shows is of one quantity, which can be chosen.
    pub const fn has_quantity(self) -> bool {
        matches!(self, Self::Ladder | Self::Sweep)
    }

    /// The problem that it shows where the page is at this one: this, or one that the record has of what it shows, as where another problem was X-rayed than
    /// those that were measured.
    pub fn problem_at<'a>(self, run: &'a Run, problem: &'a Problem) -> &'a Problem {
        let of = |all: Vec<&'a Problem>| if all.contains(&problem) { problem } else { all.first().unwrap_or(&problem) };
        match self {
            Self::Xray => of(run.xrays.iter().map(|x| &x.problem).collect()),
            Self::Profile => of(profiled(run)),
            Self::Ladder | Self::Roofline | Self::Table => {
                let is_measured = run.measurements.iter().any(|m| m.problem == *problem);
                if is_measured { problem } else { run.main_problem().unwrap_or(problem) }
            }
            _ => problem,
        }
    }

    /// The one that shows a kind of chart; `None` of a kind that this version does not know.
    fn showing(chart: ChartKind) -> Option<Self> {
        match chart {
            ChartKind::Ladder => Some(Self::Ladder),
            ChartKind::Sweep => Some(Self::Sweep),
            ChartKind::HeatMap => Some(Self::HeatMap),
            ChartKind::Roofline => Some(Self::Roofline),
            _ if is_of_training(chart) => Some(Self::Loss),
            ChartKind::Breakdown | ChartKind::Timeline => Some(Self::Breakdown),
            ChartKind::Xray => Some(Self::Xray),
            _ => part_group(chart).map(|_| Self::Breakdown),
        }
    }

    /// Those that a record has something for: the ladder, what the record's descriptor names, in its order, what was recorded of its kernels, and what
    /// every record has. One whose measurements say nothing by themselves, as those of a profile, begins with what there is to see.
    pub fn of(run: &Run) -> Vec<Self> {
        let mut tabs: Vec<Self> = Vec::new();
        let named = charts_of(run).into_iter().filter(|c| has_data(run, *c)).filter_map(Self::showing);
        let recorded = [(Self::Xray, !run.xrays.is_empty()), (Self::Profile, has_profile(run))];
        for tab in named.chain(recorded.into_iter().filter(|(_, has)| *has).map(|(tab, _)| tab)) {
            if tab != Self::Ladder && !tabs.contains(&tab) {
                tabs.push(tab);
            }
        }
        let told = |m: &Measurement| run.is_sound(m) || m.check.is_some() || m.outcome != Outcome::Measured;
        if run.measurements.is_empty() && !run.train_logs.is_empty() && !tabs.contains(&Self::Loss) {
            tabs.insert(0, Self::Loss);
        }
        if tabs.is_empty() || run.measurements.iter().any(told) {
            tabs.insert(0, Self::Ladder);
        }
        tabs.extend((!run.measurements.is_empty() || tabs[0] == Self::Ladder).then_some(Self::Table));
        tabs.extend((!run.rungs.is_empty()).then_some(Self::Source));
        tabs.push(Self::Environment);
        tabs
    }
}

/// The problems that something was recorded of apart from times.
pub fn profiled(run: &Run) -> Vec<&Problem> {
    run.profiled.iter().map(|p| &p.problem).chain(run.breakdowns.iter().map(|b| &b.problem)).collect()
}

/// Whether something was recorded of a record's rungs that is no timeline: memory, clocks and power over time, counters, work that a roofline shows.
fn has_profile(run: &Run) -> bool {
    let counted = |b: &Breakdown| b.operations.iter().any(|o| o.flops > 0 && o.bytes > 0);
    run.profiled.iter().any(|p| p.memory.len() > 1 || p.power.len() > 1 || !p.counters.is_empty())
        || !run.peaks.bandwidth.is_empty() && run.breakdowns.iter().any(counted)
}

/// The charts that the record's descriptor names, or those of any experiment where it names none that this version knows.
pub fn charts_of(run: &Run) -> Vec<ChartKind> {
    let known: Vec<ChartKind> = run.descriptor.charts.iter().copied().filter(|c| Tab::showing(*c).is_some()).collect();
    if known.is_empty() { Descriptor::default().charts } else { known }
}

/// Whether a chart shows what was logged of trainings.
pub fn is_of_training(chart: ChartKind) -> bool {
    use ChartKind::{Accuracy, GradientNorm, LearningRate, Loss, LossScale};
    matches!(chart, Loss | Accuracy | LossScale | LearningRate | GradientNorm)
}

/// The charts of trainings that the record's descriptor names and that can be drawn, with their names in files; that of losses first.
pub fn training_charts(
    options: &Options,
    run: &Run,
    problem: &Problem,
) -> Vec<(&'static str, Result<Chart, ChartError>)> {
    let name = |kind| match kind {
        ChartKind::Accuracy => "accuracy",
        ChartKind::LossScale => "loss-scale",
        ChartKind::LearningRate => "learning-rate",
        ChartKind::GradientNorm => "gradient-norm",
        _ => "loss",
    };
    let others = run.descriptor.charts.iter().filter(|k| is_of_training(**k) && **k != ChartKind::Loss);
    let others = others.map(|k| (name(*k), options.chart_but_timeline(run, problem, *k))).filter(|(_, c)| c.is_ok());
    std::iter::once(("loss", options.chart_but_timeline(run, problem, ChartKind::Loss))).chain(others).collect()
}

/// The name in files of a chart of [`Tab::Breakdown`]; `None` of others.
pub fn breakdown_name(chart: ChartKind) -> Option<String> {
    match chart {
        ChartKind::Breakdown => Some("run".into()),
        ChartKind::Timeline => Some("timeline".into()),
        _ => part_group(chart).map(|(_, name)| name.into()),
    }
}

/// What parts a chart shows, if it shows parts, and their name in files.
fn part_group(chart: ChartKind) -> Option<(PartGroup, &'static str)> {
    match chart {
        ChartKind::Operations => Some((PartGroup::Operation, "Operation")),
        ChartKind::Ablation => Some((PartGroup::Ablation, "Ablation")),
        ChartKind::Tiles => Some((PartGroup::Tile, "Tile")),
        ChartKind::Transfers => Some((PartGroup::Transfer, "Transfer")),
        _ => None,
    }
}

/// Whether a record has what a chart shows.
pub fn has_data(run: &Run, chart: ChartKind) -> bool {
    match chart {
        ChartKind::Sweep => !crate::problems::lines(run).is_empty(),
        ChartKind::HeatMap => !crate::problems::dtypes_with_library(run).is_empty(),
        ChartKind::Roofline => run.measurements.iter().any(|m| !m.traffic.is_empty()),
        ChartKind::Breakdown => !run.breakdowns.is_empty(),
        ChartKind::Timeline => !run.spans.is_empty(),
        ChartKind::Xray => !run.xrays.is_empty(),
        _ if is_of_training(chart) => !run.train_logs.is_empty(),
        _ => part_group(chart).is_none_or(|(group, _)| run.parts.iter().any(|p| p.group == group)),
    }
}

const QUANTITIES: [Quantity; 6] = [
    Quantity::Time,
    Quantity::SpeedUp,
    Quantity::Bandwidth,
    Quantity::Throughput,
    Quantity::ItemRate,
    Quantity::PeakMemory,
];

/// The name of a quantity in an address.
pub const fn quantity_id(quantity: Quantity) -> &'static str {
    match quantity {
        Quantity::Time => "time",
        Quantity::SpeedUp => "speed-up",
        Quantity::Bandwidth => "bandwidth",
        Quantity::Throughput => "throughput",
        Quantity::ItemRate => "items",
        Quantity::PeakMemory => "memory",
    }
}

/// The quantities that a record offers and that say something of a problem, in the record's order; its headline is one of them.
pub fn quantities(run: &Run, problem: &Problem) -> Vec<Quantity> {
    let d = &run.descriptor;
    let says = |q: &Quantity| match q {
        Quantity::Time | Quantity::SpeedUp => true,
        Quantity::Bandwidth => problem.bytes > 0,
        Quantity::Throughput => problem.flops > 0,
        Quantity::ItemRate => problem.items.is_some_and(|n| n > 0),
        Quantity::PeakMemory => {
            run.measurements.iter().any(|m| m.problem == *problem && m.peak_bytes.is_some_and(|b| b > 0))
        }
    };
    let headline = (!d.quantities.contains(&d.headline)).then_some(d.headline);
    let mut out = Vec::new();
    for q in headline.into_iter().chain(d.quantities.iter().copied()).filter(says) {
        if !out.contains(&q) {
            out.push(q);
        }
    }
    if out.is_empty() { vec![Quantity::Time] } else { out }
}

/// The quantity to show: the one that was asked for, else the record's headline, else the first that says something.
pub fn quantity(run: &Run, problem: &Problem, asked: Option<Quantity>) -> Quantity {
    let offered = quantities(run, problem);
    asked.into_iter().chain([run.descriptor.headline]).find(|q| offered.contains(q)).unwrap_or(offered[0])
}

/// A problem of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// By its id.
    Id(String),
    /// By the size that a sweep runs over, and its number among those of that size, as links of earlier versions say it.
    Size {
        /// The size.
        size: u64,
        /// 0 for the first of that size.
        nth: usize,
    },
}

impl Choice {
    /// The problem of a record; of a size without so many problems the first.
    pub fn find<'a>(&self, run: &'a Run) -> Option<&'a Problem> {
        let mut problems = run.every_problem().into_iter();
        match self {
            Self::Id(id) => problems.find(|p| p.id == *id),
            Self::Size { size, nth } => {
                let of_size: Vec<&Problem> = problems.filter(|p| *size > 0 && p.size() == *size).collect();
                of_size.get(*nth).or(of_size.first()).copied()
            }
        }
    }

    /// Reads a size of an earlier version's link: "5000000", "5000000-2".
    fn parse_size(text: &str) -> Option<Self> {
        let (size, nth) = text.split_once('-').unwrap_or((text, "1"));
        Some(Self::Size { size: size.parse().ok()?, nth: nth.parse::<usize>().ok()?.checked_sub(1)? })
    }

    /// As in an address: its parameter and value.
    fn pair(&self) -> (&'static str, String) {
        match self {
            Self::Id(id) => ("problem", id.clone()),
            Self::Size { size, nth: 0 } => ("size", size.to_string()),
            Self::Size { size, nth } => ("size", format!("{size}-{}", nth + 1)),
        }
    }
}

/// What is shown.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Link {
    /// Addresses of records to fetch (`?src=`), which may be several.
    pub sources: Vec<String>,
    /// The key of the record that is shown.
    pub record: Option<String>,
    /// The keys of the records that are ticked for comparison.
    pub ticked: Vec<String>,
    /// What the reader calls those of them, by their keys.
    pub labels: BTreeMap<String, String>,
    /// Whether a comparison shows the figures of what is not comparable.
    pub anyway: bool,
    /// Whether a comparison is normalised to what nobody changed.
    pub normalised: bool,
    /// The part that is shown.
    pub tab: Option<Tab>,
    /// The problem that is shown.
    pub problem: Option<Choice>,
    /// What ladder and sweep draw, if one was asked for.
    pub quantity: Option<Quantity>,
    /// The rung whose panel is shown.
    pub rung: Option<String>,
    /// The part of a sweep or a roofline that is shown.
    pub window: Option<Window>,
    /// What of a timeline is shown.
    pub traced: Shown,
    /// The rungs whose lines stand out of a sweep of many.
    pub picked: Vec<String>,
    /// Whether its whole source is shown, and not what changed.
    pub whole: bool,
    /// Whether all records are shown, although the link names some.
    pub overview: bool,
    /// The class board at the task of this id; of an empty one at its first.
    pub board: Option<String>,
    /// `true` if the board leaves out the records that come with the page.
    pub opened_only: bool,
    /// `true` if the reader's report is shown.
    pub report: bool,
}

/// The subject of the page: when it changes, the reader starts at the top of another page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum About {
    /// All records.
    Records,
    /// The class board.
    Board,
    /// The reader's report.
    Report,
    /// Records side by side.
    Comparison,
    /// The record with this key; `None` while there is no record to show.
    Record(Option<String>),
}

/// The names of views that are not of a record in an address.
const OVERVIEW: &str = "records";
const BOARD: &str = "board";
const REPORT: &str = "report";

impl Link {
    /// The problem of a record that is shown: the one that was chosen, else its main one.
    pub fn problem_of<'a>(&self, run: &'a Run) -> Option<&'a Problem> {
        self.problem.as_ref().and_then(|c| c.find(run)).or_else(|| run.main_problem())
    }

    /// Returns `true` if all records are shown: nothing else was asked for.
    pub fn shows_all(&self) -> bool {
        // A single record to compare is the beginning of a choice among all.
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

    /// Returns the subject of the page when it does not show all records; `record` is the one that it would show.
    pub fn about(&self, record: Option<String>) -> About {
        match () {
            () if self.board.is_some() => About::Board,
            () if self.report => About::Report,
            () if self.compares() => About::Comparison,
            () => About::Record(record),
        }
    }

    /// Removes from the link what a record does not have; returns a sentence on each.
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

    /// Shows the class board, at a task or at its first.
    pub fn show_board(&mut self, task: String) {
        let opened_only = self.opened_only;
        self.show_all();
        (self.overview, self.board, self.opened_only) = (false, Some(task), opened_only);
    }

    /// Shows the report.
    pub fn show_report(&mut self) {
        self.show_all();
        (self.overview, self.report) = (false, true);
    }

    /// Shows a record again.
    pub fn leave_apart(&mut self) {
        (self.board, self.report) = (None, false);
        self.tab = self.tab.take().filter(|t| *t != Tab::Compare);
    }

    /// Shows all records; those that the link names stay in it.
    pub fn show_all(&mut self) {
        let (sources, ticked) = (std::mem::take(&mut self.sources), std::mem::take(&mut self.ticked));
        *self = Self { sources, ticked, overview: true, ..Self::default() };
    }

    /// Reads the query of an address, with or without its question mark. What it does not know is passed over.
    pub fn parse(query: &str) -> Self {
        let mut link = Self::default();
        for pair in query.trim_start_matches('?').split('&') {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = decode(value);
            if value.is_empty() {
                continue;
            }
            match name {
                "src" => push_new(&mut link.sources, value),
                "record" => link.record = Some(value),
                "compare" => push_new(&mut link.ticked, value),
                // Of the record before it.
                "label" => drop(link.ticked.last().cloned().map(|key| link.label(key, &value))),
                "anyway" => link.anyway = value == "1",
                "normalised" => link.normalised = value == "1",
                "tab" => link.tab = Tab::ALL.into_iter().find(|t| t.id() == value),
                "problem" => link.problem = Some(Choice::Id(value)),
                // A link with both was made by a version that knows ids.
                "size" => link.problem = link.problem.take().or_else(|| Choice::parse_size(&value)),
                "show" => link.quantity = QUANTITIES.into_iter().find(|q| quantity_id(*q) == value),
                "rung" => link.rung = Some(value),
                "code" => link.whole = value == "source",
                "view" if value == BOARD => link.board = Some(link.board.take().unwrap_or_default()),
                "view" => (link.overview, link.report) = (value == OVERVIEW, value == REPORT),
                "task" => link.board = Some(value),
                "opened" => link.opened_only = value == "only",
                "zoom" => link.window = parse_window(&value),
                "trace" | "sight" | "span" | "find" => link.traced.read(name, value),
                "pick" => push_new(&mut link.picked, value),
                _ => {}
            }
        }
        link
    }

    /// As the query of an address, with its question mark; empty when everything is as the page begins.
    pub fn query(&self) -> String {
        let mut pairs: Vec<(&str, String)> = Vec::new();
        pairs.extend(self.sources.iter().map(|s| ("src", s.clone())));
        pairs.extend(self.record.iter().map(|r| ("record", r.clone())));
        pairs.extend(self.tab.iter().filter(|t| **t != Tab::Ladder).map(|t| ("tab", t.id().into())));
        pairs.extend(self.problem.iter().map(Choice::pair));
        pairs.extend(self.quantity.iter().map(|q| ("show", quantity_id(*q).into())));
        pairs.extend(self.rung.iter().map(|r| ("rung", r.clone())));
        pairs.extend(self.window.iter().map(|w| ("zoom", window_text(w))));
        pairs.extend(self.picked.iter().map(|r| ("pick", r.clone())));
        pairs.extend(self.traced.pairs());
        pairs.extend(self.whole.then(|| ("code", "source".into())));
        for key in &self.ticked {
            pairs.push(("compare", key.clone()));
            pairs.extend(self.labels.get(key).map(|label| ("label", label.clone())));
        }
        pairs.extend(self.anyway.then(|| ("anyway", "1".into())));
        pairs.extend(self.normalised.then(|| ("normalised", "1".into())));
        let is_named = self.overview && (!self.sources.is_empty() || !self.ticked.is_empty());
        pairs.extend(is_named.then(|| ("view", OVERVIEW.into())));
        if let Some(task) = &self.board {
            pairs.push(("view", BOARD.into()));
            pairs.extend((!task.is_empty()).then(|| ("task", task.clone())));
            pairs.extend(self.opened_only.then(|| ("opened", "only".into())));
        } else {
            pairs.extend(self.report.then(|| ("view", REPORT.into())));
        }
        let text: Vec<String> = pairs.iter().map(|(name, value)| format!("{name}={}", encode(value))).collect();
        if text.is_empty() { String::new() } else { format!("?{}", text.join("&")) }
    }
}

impl Link {
    /// Opens several addresses compared, where the link says nothing else of what is shown; as a class board where these are more than can be
    /// compared.
    pub fn compare_sources(&mut self) {
        let says_nothing = self.ticked.is_empty() && self.tab.is_none() && self.record.is_none() && !self.overview;
        if self.sources.len() > MAX_RECORDS && says_nothing && !self.is_apart() {
            self.board = Some(String::new());
        } else if self.sources.len() > 1 && says_nothing && !self.is_apart() {
            self.ticked = self.sources.iter().map(|address| Library::key_of(address)).collect();
            self.tab = Some(Tab::Compare);
        }
    }

    /// Calls a ticked record so; an empty label is no label.
    pub fn label(&mut self, key: String, label: &str) {
        let label: String = label.trim().chars().take(MAX_LABEL).collect();
        if label.is_empty() {
            self.labels.remove(&key);
        } else {
            self.labels.insert(key, label);
        }
    }
}

fn push_new(list: &mut Vec<String>, value: String) {
    if !list.contains(&value) {
        list.push(value);
    }
}

/// Percent-encodes a file's name for the path of an address.
pub fn encode_path(name: &str) -> String {
    encode(name).replace('+', "%20")
}

/// Percent-encodes all that has a meaning in a query's value; a slash, a colon and an equals sign have none there, and stay readable,
/// as does a space, which is written as `+`.
pub fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'/' | b':' | b'@' | b'=' => {
                out.push(byte as char);
            }
            b' ' => out.push('+'),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// Undoes [`encode`], reading `+` as a space; a broken escape stays as it is.
pub fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut i = 0;
    while i < bytes.len() {
        let escaped = (bytes[i] == b'%')
            .then(|| bytes.get(i + 1..i + 3))
            .flatten()
            .filter(|hex| hex.iter().all(u8::is_ascii_hexdigit))
            .and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        match escaped {
            Some(byte) => {
                out.push(byte);
                i += 3;
            }
            None => {
                out.push(if bytes[i] == b'+' { b' ' } else { bytes[i] });
                i += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open::tests::sample_run;

    #[test]
    fn a_link_survives_the_address() {
        let link = Link {
            sources: vec!["https://example.org/a b.json?x=1&y=2#z".into(), "data/ü.json".into()],
            record: Some("regression-h200.json".into()),
            ticked: vec!["a.json".into(), "@1".into()],
            labels: [("@1".to_owned(), "mine & <b>yours</b>".to_owned())].into(),
            anyway: true,
            normalised: true,
            tab: Some(Tab::Source),
            problem: Some(Choice::Id("m=4096 n=4096 k=4096 +1% bf16&".into())),
            quantity: Some(Quantity::Bandwidth),
            rung: Some("04_fused_graph".into()),
            window: Window::new((256.0, 4096.0), (0.5, 1e15)),
            traced: Shown::default(),
            picked: vec!["01_naive".into(), "a&b".into()],
            whole: true,
            overview: false,
            board: None,
            opened_only: false,
            report: false,
        };
        assert_eq!(Link::parse(&link.query()), link);
        assert!(!link.shows_all() && Link::default().shows_all());
        let mut all = link.clone();
        all.show_all();
        assert!(all.shows_all() && all.sources == link.sources && all.ticked == link.ticked);
        assert_eq!(Link::parse(&all.query()), all);
        all.sources.clear();
        all.ticked.clear();
        assert!(all.query().is_empty() && Link::parse("").shows_all());
        assert!(link.query().contains("&problem=m=4096+n=4096+k=4096+%2B1%25+bf16%26&"), "{}", link.query());
        let earlier = Link { problem: Some(Choice::Size { size: 5_000_000, nth: 1 }), ..link };
        assert_eq!(Link::parse(&earlier.query()), earlier);
        assert_eq!(Link::default().query(), "");
        let compared = |query: &str| {
            let mut link = Link::parse(query);
            link.compare_sources();
            (link.ticked, link.tab)
        };
        assert_eq!(compared("?src=a&src=b"), (vec!["@a".into(), "@b".into()], Some(Tab::Compare)));
        assert_eq!(compared("?src=a&src=b&tab=table"), (vec![], Some(Tab::Table)));
        assert_eq!(compared("?src=a"), (vec![], None));
        let many: String = (0..9).map(|i| format!("src={i}&")).collect();
        let mut class = Link::parse(&many);
        class.compare_sources();
        assert_eq!((class.board.as_deref(), class.ticked.len()), (Some(""), 0), "more than can be compared");
        let labels = Link::parse("?label=none&compare=a&label=++one++&compare=b&label=%20&anyway=0");
        assert_eq!(labels.labels, [("a".to_owned(), "one".to_owned())].into());
        assert!(
            !labels.anyway
                && Link::parse(&format!("compare=a&label={}", "x".repeat(500))).labels["a"].len() == MAX_LABEL
        );
        assert_eq!(Link { tab: Some(Tab::Ladder), ..Link::default() }.query(), "");
        for tab in Tab::ALL {
            let link = Link { tab: Some(tab), ..Link::default() };
            assert_eq!(Link::parse(&link.query()).tab, link.tab.filter(|t| *t != Tab::Ladder));
        }
        for quantity in QUANTITIES {
            assert_eq!(Link::parse(&format!("?show={}", quantity_id(quantity))).quantity, Some(quantity));
        }
    }

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

    #[test]
    fn problems_are_found_by_id_and_by_the_size_of_an_earlier_link() {
        let run = sample_run();
        let check = |query: &str, expect: Option<&str>| {
            let found = Link::parse(query).problem.and_then(|c| c.find(&run).map(|p| p.label.clone()));
            assert_eq!(found.as_deref(), expect, "{query}");
        };
        let (one, several) = ("5 M points, 200 epochs", "5 M points of 16 features, 200 epochs");
        check("?size=5000000", Some(one));
        check("?size=5000000-2", Some(several));
        check("?size=5000000-9", Some(one));
        check("?size=1000000", Some("1 M points, 200 epochs"));
        check("?size=7", None);
        check("?size=0", None);
        check("?problem=points=5000000+features=16+epochs=200+fp32", Some(several));
        check("?size=1000000&problem=points=5000000+epochs=200+fp32", Some(one));
        check("?problem=points=5000000+epochs=200+fp32&size=1000000", Some(one));
        check("?problem=gone", None);
    }

    /// A record of nothing but an X-ray.
    fn xrayed() -> Run {
        let mut value = crate::open::tests::sample();
        for list in ["measurements", "train_logs", "parts", "spans", "breakdowns"] {
            value[list] = serde_json::json!([]);
        }
        value["descriptor"]["charts"] = serde_json::json!(["xray"]);
        value["xrays"] = serde_json::json!([{
            "rung": "02_fused", "problem": "points=1000000 epochs=200 fp32", "phases": ["start", "load"],
            "kernels": [{"entry": "pass", "file": "regression/02_fused.cu", "tile": "t512x8", "blocks": 1, "warps": 1}],
            "sms": [{"sm": 0, "error_ns": 0.0}], "clock_mhz": 1980.0, "marked_us": [2.0], "unmarked_us": [1.9],
            "blocks": [{"kernel": 0, "block": 0, "sm": 0, "start_ns": 0, "end_ns": 900,
                        "warps": [{"warp": 0, "phases": "0:100 1:800", "start_ns": 0}]}]
        }]);
        crate::open::open(value.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn a_record_of_an_xray_begins_with_it() {
        let mut run = xrayed();
        assert_eq!(Tab::of(&run), [Tab::Xray, Tab::Source, Tab::Environment]);
        let problem = Link::default().problem_of(&run).unwrap();
        assert_eq!(problem.short, "1 M");
        assert!(Options::default().xray_of(&run, &run.xrays[0]).is_ok());
        let chosen = Link::parse("?problem=points=1000000+epochs=200+fp32");
        assert_eq!(chosen.problem_of(&run), Some(problem));
        crate::hostile::show(&run);
        // Also where the descriptor does not name it, as after other records were merged into it.
        run.descriptor.charts = vec![ChartKind::Ladder];
        assert_eq!(Tab::of(&run)[0], Tab::Xray);
        run.xrays.clear();
        assert_eq!(Tab::of(&run), [Tab::Ladder, Tab::Table, Tab::Source, Tab::Environment]);
    }

    #[test]
    fn an_x_ray_of_another_problem_is_shown_next_to_the_ladder() {
        let mut run = sample_run();
        let main = run.main_problem().unwrap().clone();
        let mut xray = xrayed().xrays.remove(0);
        xray.problem = main.clone().with(|p| p.id = "looked into".into());
        let looked_into = xray.problem.clone();
        run.problems.push(looked_into.clone());
        run.xrays.push(xray);
        assert!(Tab::of(&run).contains(&Tab::Xray), "it is shown also where the descriptor does not name it");
        let at = |tab: Tab, problem| tab.problem_at(&run, problem).id.as_str();
        assert_eq!((at(Tab::Xray, &main), at(Tab::Xray, &looked_into)), ("looked into", "looked into"));
        for tab in [Tab::Ladder, Tab::Table, Tab::Roofline] {
            assert_eq!((at(tab, &main), at(tab, &looked_into)), (&*main.id, &*main.id), "{tab:?}");
        }
        assert_eq!(at(Tab::Loss, &looked_into), "looked into", "it chooses by itself");
        assert_ne!(at(Tab::Profile, &looked_into), "looked into");
        crate::hostile::show(&run);
        let text = run.to_json().unwrap();
        assert!(crate::open::open(text.as_bytes()).is_ok());
    }

    #[test]
    fn a_profile_begins_with_what_there_is_to_see() {
        let mut value = crate::open::tests::sample();
        for list in ["train_logs", "parts"] {
            value[list] = serde_json::json!([]);
        }
        // The steps' times are not checked, so that no ladder could be drawn of them.
        for m in value["measurements"].as_array_mut().unwrap() {
            m.as_object_mut().unwrap().remove("check");
            m.as_object_mut().unwrap().remove("traffic");
        }
        let main = value["main_problem"].clone();
        value["descriptor"]["charts"] = serde_json::json!(["ladder", "timeline", "breakdown"]);
        value["profiled"] = serde_json::json!([{
            "rung": "02_fused", "problem": main, "source": "CUPTI 130001",
            "memory": [{"at_us": 0.0, "allocated_bytes": 0}, {"at_us": 5.0, "allocated_bytes": 4_194_304}],
            "counters": [{"kernel": "pass", "grid": [4], "values": [{"metric": "gpu__time_duration.sum", "value": 2000.0},
                          {"metric": "dram__bytes_read.sum", "value": 4096.0}]}]
        }]);
        let mut run = crate::open::open(value.to_string().as_bytes()).unwrap();
        use Tab::{Breakdown, Environment, Profile, Source, Table};
        assert_eq!(Tab::of(&run), [Breakdown, Profile, Table, Source, Environment]);
        let problem = run.main_problem().unwrap().clone();
        let sheet = crate::sheet::counters(&run, &problem);
        let headings: Vec<&str> = sheet.columns.iter().map(|c| c.label.as_str()).collect();
        assert_eq!(headings, ["Rung", "Kernel", "Time", "DRAM read"]);
        let csv = sheet.table().csv();
        assert_eq!(
            csv.lines().collect::<Vec<_>>(),
            ["Rung,Kernel,time (µs),DRAM read (bytes)", "02_fused,pass,2,4096"]
        );
        assert!(Options::default().memory(&run.profiled[0], 11.0, ["memory", ""]).is_ok());
        crate::hostile::show(&run);
        // Clock and power by themselves are one, too.
        let reading = |at_us, watts| serde_json::json!({"at_us": at_us, "sm_mhz": 1900, "watts": watts, "limit_watts": 700.0, "flops": 9});
        value["profiled"] = serde_json::json!([{
            "rung": "02_fused", "problem": main, "source": "NVML", "power": [reading(0.0, 90.0), reading(5e4, 690.5)]
        }]);
        let read = crate::open::open(value.to_string().as_bytes()).unwrap();
        assert_eq!(Tab::of(&read), [Breakdown, Profile, Table, Source, Environment]);
        assert!(
            Options::default().clocks(&read, &problem).is_ok() && Options::default().power(&read, &problem).is_ok()
        );
        crate::hostile::show(&read);
        // Without a profile it is a ladder that says why it has no bars.
        run.profiled.clear();
        run.breakdowns.clear();
        run.spans.clear();
        assert_eq!(Tab::of(&run)[..2], [Tab::Ladder, Table]);
    }

    #[test]
    fn tabs_are_those_that_the_descriptor_names_and_the_record_has_something_for() {
        let mut run = sample_run();
        use Tab::{Breakdown, Environment, HeatMap, Ladder, Loss, Profile, Roofline, Source, Sweep, Table};
        assert_eq!(
            Tab::of(&run),
            [Ladder, Sweep, Roofline, Breakdown, Loss, Profile, Table, Source, Environment],
            "no library, so no heat map"
        );
        run.descriptor.charts.retain(|c| *c != ChartKind::Roofline);
        assert!(!Tab::of(&run).contains(&Roofline));
        // Another line of a sweep is no other size.
        run.measurements.retain(|m| m.problem.size() == 5_000_000);
        run.parts.clear();
        assert!(Tab::of(&run).contains(&Breakdown), "what was recorded of a run");
        run.breakdowns.clear();
        run.spans.clear();
        assert!(run.problems().len() == 2 && !Tab::of(&run).contains(&Sweep));
        assert!(!Tab::of(&run).contains(&Breakdown));
        let mut run = sample_run();
        run.descriptor.charts = vec![ChartKind::HeatMap];
        run.rungs[0].runner = warpbook_record::Runner::Library("cuBLAS".into());
        run.breakdowns.clear();
        assert_eq!(Tab::of(&run), [Ladder, HeatMap, Table, Source, Environment]);
        // A record of a later version, with kinds that this one does not know.
        run.descriptor.charts = vec![ChartKind::Other];
        assert_eq!(Tab::of(&run), [Ladder, Sweep, Roofline, Table, Source, Environment]);
        run.measurements.iter_mut().for_each(|m| m.traffic.clear());
        assert!(!Tab::of(&run).contains(&Roofline), "no bytes were counted");
        assert_eq!(Link::parse("?tab=roofline").tab, Some(Roofline));
        assert!(Tab::of(&sample_run()).contains(&Loss));
    }

    #[test]
    fn a_record_of_a_training_alone_begins_with_its_losses() {
        let mut run = crate::open::tests::training_run();
        let problem = run.main_problem().unwrap().clone();
        // Its kernels were recorded too.
        assert_eq!(Tab::of(&run), [Tab::Loss, Tab::Profile, Tab::Source, Tab::Environment]);
        let drawn = |run: &Run| -> Vec<&str> {
            training_charts(&Options::default(), run, &problem)
                .into_iter()
                .filter(|(_, c)| c.is_ok())
                .map(|(name, _)| name)
                .collect()
        };
        assert_eq!(drawn(&run), ["loss", "accuracy", "learning-rate", "loss-scale"], "no norm was computed");
        run.descriptor.charts = vec![ChartKind::Other];
        assert_eq!(Tab::of(&run)[0], Tab::Loss);
        assert_eq!(drawn(&run), ["loss"]);
    }

    #[test]
    fn quantities_are_the_descriptors_that_say_something() {
        use Quantity::{Bandwidth, ItemRate, SpeedUp, Throughput, Time};
        let mut run = sample_run();
        let problem = run.main_problem().unwrap().clone();
        assert_eq!(quantities(&run, &problem), [Time, SpeedUp, Bandwidth]);
        assert_eq!(quantity(&run, &problem, None), Time);
        assert_eq!(quantity(&run, &problem, Some(Bandwidth)), Bandwidth);
        assert_eq!(quantity(&run, &problem, Some(Throughput)), Time, "not offered");
        (run.descriptor.headline, run.descriptor.quantities) = (Throughput, vec![ItemRate, Time, Time]);
        assert_eq!(quantities(&run, &problem), [Throughput, Time], "no items are known");
        assert_eq!(quantity(&run, &problem, None), Throughput);
        let without = problem.with(|p| (p.flops, p.items) = (0, Some(3)));
        assert_eq!(quantities(&run, &without), [ItemRate, Time]);
        assert_eq!(quantity(&run, &without, None), ItemRate);
        run.descriptor.quantities.clear();
        assert_eq!(quantity(&run, &without, None), Time);
        run.descriptor.quantities = vec![Quantity::PeakMemory, Time];
        run.descriptor.headline = Time;
        assert_eq!(quantities(&run, &problem), [Time], "no memory was counted");
        run.measurements.iter_mut().filter(|m| m.problem == problem).for_each(|m| m.peak_bytes = Some(1 << 20));
        assert_eq!(quantities(&run, &problem), [Quantity::PeakMemory, Time]);
    }

    #[test]
    fn an_address_may_hold_anything() {
        fn check(query: &str, expect: Link) {
            assert_eq!(Link::parse(query), expect, "{query}");
        }
        check("", Link::default());
        check("?", Link::default());
        check("?tab=nothing&size=-1&show=%&rung=&problem=&&&=&x", Link::default());
        check("?size=18446744073709551616", Link::default());
        check("?size=7-0", Link::default());
        check("?rung=%zz%4", Link { rung: Some("%zz%4".into()), ..Link::default() });
        check("?rung=a+b%20c", Link { rung: Some("a b c".into()), ..Link::default() });
        check("?rung=%ff%", Link { rung: Some("\u{fffd}%".into()), ..Link::default() });
        check("?src=a&src=a", Link { sources: vec!["a".into()], ..Link::default() });
    }
}
