//! Tables whose rows can be sorted: what they hold, apart from how they look.

use crate::format::{self, NONE};
use std::cmp::Ordering;
use warpbook_charts::Table;
use warpbook_record::{LadderRow, Measurement, Outcome, Problem, Run, TrainLog};

/// What a cell is sorted by.
#[derive(Debug, Clone, PartialEq)]
pub enum Key {
    /// A figure.
    Number(f64),
    /// Words; figures come first.
    Text(String),
    /// Nothing; always last.
    Missing,
}

/// How a cell is to be read at a glance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// As any other.
    Plain,
    /// Something to be proud of.
    Good,
    /// Something to look into.
    Bad,
    /// Something of less weight.
    Quiet,
}

/// A cell.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// What it says.
    pub text: String,
    /// A second, smaller line; empty of most.
    pub detail: String,
    /// What it is sorted by.
    pub key: Key,
    /// How it is to be read.
    pub tone: Tone,
}

impl Cell {
    /// A figure and its text; no figure, no text.
    pub fn number(value: Option<f64>, text: impl Fn(f64) -> String) -> Self {
        match value {
            Some(v) => Self { text: text(v), detail: String::new(), key: Key::Number(v), tone: Tone::Plain },
            None => Self { text: NONE.into(), detail: String::new(), key: Key::Missing, tone: Tone::Quiet },
        }
    }

    /// Words.
    pub fn text(text: impl Into<String>) -> Self {
        let text = text.into();
        Self { key: Key::Text(text.to_lowercase()), text, detail: String::new(), tone: Tone::Plain }
    }

    fn detail(self, detail: impl Into<String>) -> Self {
        Self { detail: detail.into(), ..self }
    }

    fn tone(self, tone: Tone) -> Self {
        Self { tone, ..self }
    }

    fn place(self, place: usize) -> Self {
        Self { key: Key::Number(place as f64), ..self }
    }
}

/// The name of a column.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Column {
    /// What stands above it.
    pub label: &'static str,
    /// Whether it holds figures, which stand on the right.
    pub numeric: bool,
    /// What stands above it in a file, where figures are plain numbers of one unit; `None` where the texts stand there.
    in_file: Option<&'static str>,
}

const fn words(label: &'static str) -> Column {
    Column { label, numeric: false, in_file: None }
}

const fn shapes(label: &'static str) -> Column {
    Column { label, numeric: true, in_file: None }
}

const fn figures(label: &'static str, in_file: &'static str) -> Column {
    Column { label, numeric: true, in_file: Some(in_file) }
}

/// A table.
#[derive(Debug, Clone, PartialEq)]
pub struct Sheet {
    /// Its heading.
    pub title: String,
    /// Its columns; the first names the row.
    pub columns: Vec<Column>,
    /// Its rows.
    pub rows: Vec<Row>,
}

/// A row of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Its cells, as many as there are columns.
    pub cells: Vec<Cell>,
    /// The id of the rung that it is about.
    pub rung: String,
    /// Why it has no figures: what is shown in place of all cells but the first.
    pub note: Option<Cell>,
}

impl Row {
    fn new(rung: &str, cells: Vec<Cell>) -> Self {
        Self { cells, rung: rung.to_owned(), note: None }
    }
}

/// By which column rows are sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sort {
    /// Its number.
    pub column: usize,
    /// Whether the largest comes first.
    pub descending: bool,
}

impl Sort {
    /// What a press on a column's heading leads to: up, down, and the order of the record again.
    pub fn pressed(now: Option<Self>, column: usize) -> Option<Self> {
        match now.filter(|s| s.column == column) {
            None => Some(Self { column, descending: false }),
            Some(s) if !s.descending => Some(Self { column, descending: true }),
            Some(_) => None,
        }
    }
}

impl Sheet {
    fn new(title: impl Into<String>, columns: &[Column]) -> Self {
        Self { title: title.into(), columns: columns.to_vec(), rows: Vec::new() }
    }

    /// The same without a column that has nothing in any row.
    fn without_empty(mut self, label: &str) -> Self {
        let at = self.columns.iter().position(|c| c.label == label);
        let empty = |at: &usize| self.rows.iter().all(|r| r.cells.get(*at).is_none_or(|c| c.key == Key::Missing));
        if let Some(at) = at.filter(empty) {
            self.columns.remove(at);
            self.rows.iter_mut().filter(|r| at < r.cells.len()).for_each(|r| drop(r.cells.remove(at)));
        }
        self
    }

    /// Its rows in an order; equal ones stay as they were, missing ones come last either way.
    pub fn sorted(&self, sort: Option<Sort>) -> Vec<&Row> {
        let mut rows: Vec<_> = self.rows.iter().collect();
        if let Some(Sort { column, descending }) = sort {
            rows.sort_by(|a, b| {
                let (a, b) = (a.cells.get(column).map(|c| &c.key), b.cells.get(column).map(|c| &c.key));
                order(a.unwrap_or(&Key::Missing), b.unwrap_or(&Key::Missing), descending)
            });
        }
        rows
    }

    /// The same as a table that knows how to become CSV.
    pub fn table(&self) -> Table {
        let cell = |c: &Cell, column: &Column| match (&c.key, c.text.as_str(), c.detail.as_str()) {
            (Key::Missing, ..) => String::new(),
            (Key::Number(v), ..) if column.in_file.is_some() => v.to_string(),
            (_, text, "") => text.to_owned(),
            (_, text, detail) => format!("{text}; {detail}"),
        };
        // The row's name is its id, which other files share.
        let row = |r: &Row| {
            let others = r.cells.iter().zip(&self.columns).skip(1).map(|(c, column)| cell(c, column));
            std::iter::once(r.rung.clone()).chain(others).collect()
        };
        Table {
            headers: self.columns.iter().map(|c| c.in_file.unwrap_or(c.label).to_owned()).collect(),
            rows: self.rows.iter().map(row).collect(),
        }
    }
}

fn order(a: &Key, b: &Key, descending: bool) -> Ordering {
    let present = match (a, b) {
        (Key::Missing, Key::Missing) => return Ordering::Equal,
        (Key::Missing, _) => return Ordering::Greater,
        (_, Key::Missing) => return Ordering::Less,
        (Key::Number(a), Key::Number(b)) => a.total_cmp(b),
        (Key::Text(a), Key::Text(b)) => a.cmp(b),
        (Key::Number(_), Key::Text(_)) => Ordering::Less,
        (Key::Text(_), Key::Number(_)) => Ordering::Greater,
    };
    if descending { present.reverse() } else { present }
}

/// A rung's name, sorted by its place in the ladder.
fn rung_cell(run: &Run, id: &str) -> Cell {
    let place = run.rungs.iter().position(|r| r.id == id);
    let title = place.map_or("", |p| run.rungs[p].title.as_ref());
    let framework = place.and_then(|p| format::framework(&run.rungs[p]));
    let cell = match (title, framework) {
        ("", None) => Cell::text(id),
        ("", Some(name)) => Cell::text(id).detail(name),
        (_, None) => Cell::text(title).detail(id),
        (_, Some(name)) => Cell::text(title).detail(format!("{id}, {name}")),
    };
    cell.place(place.unwrap_or(run.rungs.len()))
}

fn outcome_cell(m: &Measurement, diverged: bool) -> Cell {
    let cell = Cell::text(format::outcome(&m.outcome));
    match m.outcome {
        Outcome::Measured if diverged => {
            Cell::text("Diverged: a loss or a parameter is no longer a finite number.").tone(Tone::Bad)
        }
        Outcome::Measured => cell,
        Outcome::Skipped { .. } => cell.tone(Tone::Quiet),
        Outcome::Failed { .. } => cell.tone(Tone::Bad),
    }
}

fn check_cell(m: &Measurement) -> Cell {
    let Some(check) = &m.check else { return Cell::number(None, format::number) };
    let (word, tone, sign) =
        if check.passed { ("Passed", Tone::Good, "≤") } else { ("Failed", Tone::Bad, "exceeds") };
    let sign = if !check.passed && check.max_rel_error <= check.tolerance { "against" } else { sign };
    let errors = format!("error {} {sign} {}", format::plain(check.max_rel_error), format::plain(check.tolerance));
    Cell { key: Key::Number(check.max_rel_error), ..Cell::text(word) }.detail(errors).tone(tone)
}

/// What a rung is held against: its own bytes and operations where they were counted, else the ceiling of reading once a pass.
fn bound_cell(run: &Run, row: &LadderRow<'_>, sound: bool) -> Cell {
    let m = row.measurement;
    match (run.bound(m), run.ceiling(&m.problem)) {
        _ if !sound || row.fraction_of_ceiling.is_none() => Cell::number(None, format::number),
        (Some(bound), _) => Cell::text(bound.label()).detail(format!("at least {}", format::time(bound.us))),
        (None, Some(peak)) => Cell::text(peak.level.label()).detail("reading its inputs once a pass"),
        (None, None) => Cell::number(None, format::number),
    }
}

const CHOSEN: &str = "Chosen for this size";

/// Every figure of the rungs at one problem.
pub fn rungs(run: &Run, problem: &Problem) -> Sheet {
    let mut sheet = Sheet::new(
        format!("All rungs at {}", problem.label()),
        &[
            words("Rung"),
            figures("Median", "Median (us)"),
            figures("MAD", "MAD (us)"),
            figures("Wall time", "Wall time (us)"),
            figures("Time per epoch", "Time per epoch (us)"),
            figures("Speed-up", "Speed-up"),
            figures("Effective GB/s", "Effective bandwidth (GB/s)"),
            figures("Of bound", "Of bound (%)"),
            words("Bound by"),
            words("Check"),
            words("Outcome"),
            words("Tile"),
            words(CHOSEN),
            figures("Samples", "Samples"),
        ],
    );
    let rows = run.ladder(problem);
    let diverged = |m: &Measurement| run.train_log(&m.rung, problem).is_some_and(TrainLog::diverged);
    // What failed its check or diverged has times, but they are of wrong work.
    let usable = |m: &Measurement| m.is_valid() && !diverged(m);
    let times = rows.iter().filter(|r| usable(r.measurement)).filter_map(|r| r.measurement.median_us());
    let fastest = times.min_by(f64::total_cmp);
    for row in rows {
        let m = row.measurement;
        let sound = usable(m);
        let us = |v: Option<f64>| Cell::number(v.filter(|_| sound), format::time);
        let bandwidth = m.effective_bytes_per_s().filter(|_| sound);
        let median = us(m.median_us());
        let best = sound && m.median_us() == fastest;
        let cells = vec![
            rung_cell(run, &m.rung),
            if best { median.detail("fastest").tone(Tone::Good) } else { median },
            us(m.mad_us()),
            us(m.median_wall_us()),
            us(m.epoch_us()),
            Cell::number(row.speed_up.filter(|_| sound), |v| format!("{}×", format::number(v))),
            Cell::number(bandwidth.map(|b| b / 1e9), format::number),
            Cell::number(row.fraction_of_ceiling.filter(|_| sound).map(|f| f * 100.0), |v| format!("{v:.1} %")),
            bound_cell(run, &row, sound),
            check_cell(m),
            outcome_cell(m, diverged(m)),
            m.tile.as_ref().map_or_else(|| Cell::number(None, format::number), Cell::text),
            m.choice.as_ref().map_or_else(|| Cell::number(None, format::number), Cell::text),
            Cell::number((m.samples_total > 0).then_some(m.samples_total as f64), |v| format!("{v}")),
        ];
        let note = (m.outcome != Outcome::Measured || diverged(m)).then(|| outcome_cell(m, diverged(m)));
        sheet.rows.push(Row { note, ..Row::new(&m.rung, cells) });
    }
    sheet.without_empty(CHOSEN)
}

/// What the compiler and the device say of each kernel at one problem.
pub fn kernels(run: &Run, problem: &Problem) -> Sheet {
    let mut sheet = Sheet::new(
        "Kernels",
        &[
            words("Rung"),
            words("Kernel"),
            words("Architecture"),
            figures("Registers", "Registers"),
            figures("Static shared memory", "Static shared memory (bytes)"),
            figures("Dynamic shared memory", "Dynamic shared memory (bytes)"),
            figures("Spills", "Spills (bytes)"),
            shapes("Grid"),
            shapes("Block"),
            figures("Blocks per SM", "Blocks per SM"),
            figures("Occupancy", "Occupancy (%)"),
        ],
    );
    let shape = |d: Option<[u32; 3]>| {
        let volume = d.map(|d| d.iter().map(|n| f64::from(*n)).product());
        let [x, y, z] = d.unwrap_or_default();
        Cell::number(volume, |_| if y <= 1 && z <= 1 { x.to_string() } else { format!("{x} × {y} × {z}") })
    };
    for row in run.ladder(problem) {
        for k in &row.measurement.kernels {
            let spilled = u64::from(k.spill_store_bytes) + u64::from(k.spill_load_bytes);
            let spills = Cell::number(Some(spilled as f64), |v| if v > 0.0 { format!("{v} B") } else { "none".into() });
            let shared = |n: u32| Cell::number(Some(f64::from(n)), |_| format::bytes(u64::from(n)));
            let cells = vec![
                rung_cell(run, &row.measurement.rung),
                Cell::text(&k.entry).detail(&k.file),
                Cell::text(&k.architecture),
                Cell::number(Some(f64::from(k.registers)), |v| format!("{v}")),
                shared(k.static_shared_bytes),
                shared(k.dynamic_shared_bytes),
                if spilled > 0 { spills.tone(Tone::Bad) } else { spills },
                shape(k.grid),
                shape(k.block),
                Cell::number(k.blocks_per_multiprocessor.map(f64::from), |v| format!("{v}")),
                Cell::number(k.occupancy.map(|o| o * 100.0), |v| format!("{v:.0} %")),
            ];
            sheet.rows.push(Row::new(&row.measurement.rung, cells));
        }
    }
    sheet
}

/// What the trainings at one problem ended with.
pub fn trainings(run: &Run, problem: &Problem) -> Sheet {
    let logs: Vec<_> = run.train_logs.iter().filter(|l| l.problem == *problem).collect();
    let mut sheet = Sheet::new(
        "Results of the training",
        &[
            words("Rung"),
            words("Parameters"),
            figures("Training loss", "Training loss"),
            figures("Test loss", "Test loss"),
            words("Diverged"),
        ],
    );
    for log in logs {
        let parameters: Vec<_> = log.parameters.iter().map(|(name, v)| format!("{name} = {}", precise(*v))).collect();
        let loss = |v: f64| Cell::number(Some(v), precise);
        let cells = vec![
            rung_cell(run, &log.rung),
            Cell::text(parameters.join(", ")),
            loss(log.train_loss),
            if log.test_loss.is_nan() && !log.diverged() { Cell::number(None, precise) } else { loss(log.test_loss) },
            if log.diverged() { Cell::text("Yes").tone(Tone::Bad) } else { Cell::text("No") },
        ];
        sheet.rows.push(Row::new(&log.rung, cells));
    }
    sheet
}

/// Six digits: losses of good rungs differ late.
fn precise(v: f64) -> String {
    format::significant(v, 6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open::tests::{sample, sample_run};

    fn column(sheet: &Sheet, rows: &[&Row], label: &str) -> Vec<String> {
        let at = sheet.columns.iter().position(|c| c.label == label).unwrap();
        rows.iter().map(|r| r.cells[at].text.clone()).collect()
    }

    #[test]
    fn rows_are_as_long_as_the_columns() {
        let run = sample_run();
        let problem = run.main_problem().unwrap();
        for sheet in [rungs(&run, problem), kernels(&run, problem), trainings(&run, problem)] {
            assert!(!sheet.rows.is_empty(), "{}", sheet.title);
            assert!(sheet.rows.iter().all(|r| r.cells.len() == sheet.columns.len()), "{}", sheet.title);
        }
    }

    #[test]
    fn missing_figures_come_last_either_way() {
        let cell = |v| Row::new("", vec![Cell::number(v, format::number)]);
        let sheet = Sheet {
            title: String::new(),
            columns: vec![figures("v", "v (s)")],
            rows: vec![cell(None), cell(Some(2.0)), cell(Some(f64::NAN)), cell(Some(1.0))],
        };
        let texts = |descending| {
            let sorted = sheet.sorted(Some(Sort { column: 0, descending }));
            column(&sheet, &sorted, "v")
        };
        assert_eq!(texts(false), ["1.00", "2.00", "not a number", NONE]);
        assert_eq!(texts(true), ["not a number", "2.00", "1.00", NONE]);
        assert_eq!(column(&sheet, &sheet.sorted(None), "v"), [NONE, "2.00", "not a number", "1.00"]);
    }

    #[test]
    fn a_file_has_plain_numbers_of_one_unit() {
        let mut run = sample_run();
        run.train_logs.clear();
        let csv = rungs(&run, run.main_problem().unwrap()).table().csv();
        let mut lines = csv.lines();
        assert!(lines.next().unwrap().starts_with("Rung,Median (us),MAD (us),"), "{csv}");
        assert!(lines.next().unwrap().starts_with("02_fused,3000,30,3300"), "{csv}");
    }

    #[test]
    fn a_heading_sorts_up_then_down_then_not() {
        let first = Sort::pressed(None, 2);
        assert_eq!(first, Some(Sort { column: 2, descending: false }));
        let second = Sort::pressed(first, 2);
        assert_eq!(second, Some(Sort { column: 2, descending: true }));
        assert_eq!(Sort::pressed(second, 2), None);
        assert_eq!(Sort::pressed(second, 1), Some(Sort { column: 1, descending: false }));
    }

    #[test]
    fn a_rung_that_failed_its_check_shows_no_times() {
        let mut value = sample();
        value["measurements"][1]["check"]["passed"] = false.into();
        value["measurements"][1]["check"]["max_rel_error"] = "NaN".into();
        let run = crate::open::open(value.to_string().as_bytes()).unwrap();
        let sheet = rungs(&run, run.main_problem().unwrap());
        let rows = sheet.sorted(None);
        assert_eq!(column(&sheet, &rows, "Median")[1], NONE);
        assert_eq!(column(&sheet, &rows, "Check"), ["Passed", "Failed"]);
        assert!(sheet.rows[1].cells.iter().any(|c| c.detail.contains("not a number")));
    }

    #[test]
    fn a_skipped_rung_says_why_in_place_of_figures() {
        let mut value = sample();
        value["measurements"][1]["outcome"] = serde_json::json!({"status": "skipped", "why": "no GPU"});
        let run = crate::open::open(value.to_string().as_bytes()).unwrap();
        let sheet = rungs(&run, run.main_problem().unwrap());
        assert_eq!(sheet.rows[1].note.as_ref().map(|n| n.text.as_str()), Some("Skipped: no GPU"));
        assert!(sheet.table().csv().contains("Skipped: no GPU"));
        // The sample's first training diverged: the chart draws no bar of it either.
        assert!(sheet.rows[0].note.as_ref().is_some_and(|n| n.text.starts_with("Diverged")));
        assert_eq!(sheet.rows[0].cells[1].key, Key::Missing);
    }

    #[test]
    fn rungs_say_what_bounds_them_what_was_chosen_and_whose_they_are() {
        let run = sample_run();
        let at =
            |size, features| *run.problems().iter().find(|p| p.size() == size && p.features() == features).unwrap();
        let sheet = rungs(&run, at(1_000_000, 1));
        let get = |sheet: &Sheet, label: &str| column(sheet, &sheet.sorted(None), label);
        assert_eq!(get(&sheet, CHOSEN), [NONE, "800000 training points lie in one cluster."]);
        // The first rung's bytes were not counted: it is held against reading its inputs once a pass.
        assert_eq!(get(&sheet, "Bound by"), ["memory", "arithmetic"]);
        assert!(sheet.rows[1].cells.iter().any(|c| c.detail == "at least 15.2 µs"), "{sheet:?}");
        let several = rungs(&run, at(5_000_000, 16));
        assert!(several.columns.iter().all(|c| c.label != CHOSEN));
        assert_eq!(several.rows[0].cells[0].detail, "pytorch_eager, PyTorch 2.11.0");
        assert!(several.table().csv().lines().nth(1).unwrap().starts_with("pytorch_eager,90000"));
    }

    #[test]
    fn a_diverged_training_says_so() {
        let run = sample_run();
        let sheet = trainings(&run, run.main_problem().unwrap());
        assert_eq!(sheet.rows[0].cells[4].text, "Yes");
        assert_eq!(sheet.rows[0].cells[1].text, "b = 2.00000, w = 3.00000");
    }
}
