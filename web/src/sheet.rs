//! Tables whose rows can be sorted: what they hold, apart from how they look.

use crate::filter::folded;
use crate::format::{self, NONE};
use std::cmp::Ordering;
use warpbook_charts::{LadderTable, LadderTableRow, Table};
use warpbook_record::{Column as Figure, Measurement, Outcome, Problem, Run};

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
        Self { key: Key::Text(folded(&text)), text, detail: String::new(), tone: Tone::Plain }
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
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// Its heading.
    pub label: String,
    /// Whether it holds figures, which are right-aligned.
    pub numeric: bool,
    /// Its heading in a file, where figures are plain numbers of one unit; `None` where cells are texts.
    in_file: Option<&'static str>,
}

fn words(label: &str) -> Column {
    Column { label: label.into(), numeric: false, in_file: None }
}

fn shapes(label: &str) -> Column {
    Column { label: label.into(), numeric: true, in_file: None }
}

fn figures(label: &str, in_file: &'static str) -> Column {
    Column { label: label.into(), numeric: true, in_file: Some(in_file) }
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
    /// The same for a file, where that is made elsewhere.
    file: Option<Table>,
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
    fn new(title: impl Into<String>, columns: Vec<Column>) -> Self {
        Self { title: title.into(), columns, rows: Vec::new(), file: None }
    }

    /// The same without the columns that have nothing in any row, but for the first.
    fn without_empty(mut self) -> Self {
        let empty = |at: usize| self.rows.iter().all(|r| r.cells.get(at).is_none_or(|c| c.key == Key::Missing));
        let kept: Vec<bool> = (0..self.columns.len()).map(|at| at == 0 || !empty(at)).collect();
        let keep = |at: &mut usize| {
            *at += 1;
            kept.get(*at - 1).copied().unwrap_or(true)
        };
        let mut at = 0;
        self.columns.retain(|_| keep(&mut at));
        for row in &mut self.rows {
            let mut at = 0;
            row.cells.retain(|_| keep(&mut at));
        }
        self
    }

    /// Returns its rows in an order; equal ones stay as they were, missing ones come last either way.
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

    /// Returns the rows that have a text in a cell, ignoring case; all rows if the text is empty.
    pub fn having<'s>(rows: Vec<&'s Row>, wanted: &str) -> Vec<&'s Row> {
        let wanted = folded(wanted.trim());
        let has = |row: &&Row| {
            let note = row.note.as_ref();
            row.cells.iter().chain(note).any(|c| [&c.text, &c.detail].iter().any(|t| folded(t).contains(&wanted)))
        };
        if wanted.is_empty() { rows } else { rows.into_iter().filter(has).collect() }
    }

    /// Returns it as a table that can become CSV.
    pub fn table(&self) -> Table {
        if let Some(file) = &self.file {
            return file.clone();
        }
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
            headers: self.columns.iter().map(|c| c.in_file.unwrap_or(&c.label).to_owned()).collect(),
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

/// The columns of every rung: those of the descriptor, then what else the record has.
fn ladder_columns(run: &Run, problem: &Problem) -> Vec<Figure> {
    let mut all: Vec<Figure> = LadderTable::of(run, problem).headers.iter().map(|h| h.column).collect();
    let mut add = |column: Figure, after: Option<Figure>| {
        if !all.contains(&column) {
            let at = after.and_then(|a| all.iter().position(|c| *c == a)).map_or(all.len(), |at| at + 1);
            all.insert(at, column);
        }
    };
    add(Figure::Wall, Some(Figure::Mad));
    add(Figure::OfBound, None);
    add(Figure::BoundBy, Some(Figure::OfBound));
    add(Figure::Check, None);
    add(Figure::Tile, None);
    add(Figure::Samples, None);
    all
}

/// A figure of the ladder's table, which is sorted by its number.
fn ladder_cell(column: Figure, cell: &warpbook_charts::Cell, m: Option<&Measurement>) -> Cell {
    if cell.text.is_empty() {
        return Cell::number(None, format::number);
    }
    let key = cell.number.map_or_else(|| Key::Text(folded(&cell.text)), Key::Number);
    let failed = || m.and_then(|m| m.check.as_ref()).is_some_and(|c| !c.passed);
    let (text, tone) = match column {
        Figure::Check => (format::sentence_case(&cell.text), if failed() { Tone::Bad } else { Tone::Good }),
        _ => (cell.text.clone(), Tone::Plain),
    };
    Cell { text, detail: cell.detail.clone(), key, tone }
}

/// Why a row has no figures; what was skipped weighs less than what failed.
fn note_cell(row: &LadderTableRow, m: Option<&Measurement>) -> Option<Cell> {
    let skipped = m.is_some_and(|m| matches!(m.outcome, Outcome::Skipped { .. }));
    let note = Cell::text(format::sentence_case(row.note.as_ref()?));
    Some(note.tone(if skipped { Tone::Quiet } else { Tone::Bad }))
}

const CHOSEN: &str = "Chosen for this size";

/// Every figure of the rungs at one problem.
pub fn rungs(run: &Run, problem: &Problem) -> Sheet {
    let table = LadderTable::with(run, problem, &ladder_columns(run, problem));
    let heads = table.headers.iter().map(|h| Column {
        label: format::sentence_case(&h.text),
        numeric: h.numeric,
        in_file: None,
    });
    let columns = std::iter::once(words("Rung")).chain(heads).chain([words("Remark"), words(CHOSEN)]).collect();
    let mut sheet = Sheet::new(format!("All rungs at {}", problem.label), columns);
    let mut file = table.file();
    file.headers.push("chosen for this size".into());
    // The table has a row for each of these, in this order.
    let measurements: Vec<&Measurement> = run.ladder(problem).iter().map(|r| r.measurement).collect();
    for (i, row) in table.rows.iter().enumerate() {
        let m = measurements.get(i).copied();
        let choice = m.and_then(|m| m.choice.as_deref()).unwrap_or_default();
        if let Some(row) = file.rows.get_mut(i) {
            row.push(choice.to_owned());
        }
        // A check that failed is worth its cells: they say by how much it did.
        let wrong = m.and_then(|m| m.check.as_ref()).is_some_and(|c| !c.passed);
        let (remark, note) = if wrong { (note_cell(row, m), None) } else { (None, note_cell(row, m)) };
        let less = row.less_work.map(|share| format!("Does {} of the operations", format::percent(share)));
        let remark = remark.or(less.map(Cell::text));
        let none = || Cell::number(None, format::number);
        let figures = table.headers.iter().zip(&row.cells).map(|(h, c)| {
            let cell = ladder_cell(h.column, c, m);
            let best = row.fastest && h.column == Figure::Median;
            if best { cell.detail("fastest").tone(Tone::Good) } else { cell }
        });
        let cells = std::iter::once(rung_cell(run, &row.rung))
            .chain(figures)
            .chain([remark.unwrap_or_else(none), if choice.is_empty() { none() } else { Cell::text(choice) }])
            .collect();
        sheet.rows.push(Row { note, ..Row::new(&row.rung, cells) });
    }
    sheet.file = Some(file);
    sheet.without_empty()
}

/// What the compiler and the device say of each kernel at one problem.
pub fn kernels(run: &Run, problem: &Problem) -> Sheet {
    let mut sheet = Sheet::new(
        "Kernels",
        vec![
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

/// The hardware counters of each kernel that was counted at one problem.
pub fn counters(run: &Run, problem: &Problem) -> Sheet {
    let mut sheet = Sheet::new("Hardware counters", vec![words("Rung"), words("Kernel")]);
    for profiled in run.profiled.iter().filter(|p| p.problem == *problem) {
        for kernel in &profiled.counters {
            let mut cells = vec![rung_cell(run, &profiled.rung), Cell::text(&kernel.kernel)];
            let is_first = sheet.rows.is_empty();
            let mut all = warpbook_charts::counters_of(kernel);
            // The column that says what warps wait for tells the most, so it is moved from the right edge to the front.
            all.rotate_right(1);
            for c in all {
                if is_first {
                    let heading = format::sentence_case(c.heading);
                    sheet.columns.push(if c.in_words { words(&heading) } else { figures(&heading, c.in_file) });
                }
                cells.push(match c.number {
                    None if !c.text.is_empty() => Cell::text(c.text),
                    number => Cell::number(number, |_| c.text.clone()),
                });
            }
            sheet.rows.push(Row::new(&profiled.rung, cells));
        }
    }
    sheet.without_empty()
}

/// What the trainings at one problem ended with.
pub fn trainings(run: &Run, problem: &Problem) -> Sheet {
    let logs: Vec<_> = run.train_logs.iter().filter(|l| l.problem == *problem).collect();
    let mut sheet = Sheet::new(
        "Results of the training",
        vec![
            words("Rung"),
            words("Parameters"),
            figures("Training loss", "Training loss"),
            figures("Test loss", "Test loss"),
            words("Diverged"),
        ],
    );
    let watched = logs.iter().any(|l| l.course.is_some());
    if watched {
        sheet.columns.extend([
            figures("Test accuracy", "Test accuracy (%)"),
            figures("Seconds", "Seconds"),
            figures("Peak bytes", "Peak bytes"),
            words("Ended"),
        ]);
    }
    for log in logs {
        let parameters: Vec<_> = log.parameters.iter().map(|(name, v)| format!("{name} = {}", precise(*v))).collect();
        let loss = |v: f64| Cell::number(Some(v), precise);
        let mut cells = vec![
            rung_cell(run, &log.rung),
            Cell::text(parameters.join(", ")),
            loss(log.train_loss),
            if log.test_loss.is_nan() && !log.diverged() { Cell::number(None, precise) } else { loss(log.test_loss) },
            if log.diverged() { Cell::text("Yes").tone(Tone::Bad) } else { Cell::text("No") },
        ];
        if watched {
            let course = log.course.as_deref();
            let accuracy = course.and_then(|c| c.epochs.iter().rev().find_map(|p| p.test?.accuracy()));
            let percent = |a: f64| format!("{:.2}", a);
            let bytes = course.and_then(|c| c.peak_allocated_bytes).map(|b| b as f64);
            cells.extend([
                Cell::number(accuracy.map(|a| 100.0 * a), percent),
                Cell::number(course.map(|c| c.total_s), |s| format::significant(s, 4)),
                Cell::number(bytes, |b| format::bytes(b as u64)),
                Cell::text(course.map_or("", |c| c.ended.as_str())),
            ]);
        }
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
            let file = sheet.table();
            assert!(file.rows.iter().all(|r| r.len() == file.headers.len()), "{}", sheet.title);
        }
    }

    #[test]
    fn columns_are_the_descriptors_and_what_else_there_is() {
        let mut run = sample_run();
        run.train_logs.clear();
        let labels = |run: &Run, problem: &Problem| {
            rungs(run, problem).columns.iter().map(|c| c.label.clone()).collect::<Vec<_>>().join(", ")
        };
        let problem = run.main_problem().unwrap().clone();
        assert_eq!(
            labels(&run, &problem),
            "Rung, Median, MAD, Wall, Epoch time, Speed-up, Effective bandwidth, % of bound, Bound by, Check, Tile, Samples"
        );
        run.descriptor.columns = vec![Figure::ItemRate, Figure::Throughput, Figure::Median, Figure::Other];
        run.measurements.iter_mut().for_each(|m| (m.tile, m.wall_us) = (None, Vec::new()));
        // No items are known, and nothing says what bounds the work.
        run.peaks = Default::default();
        assert_eq!(labels(&run, &problem), "Rung, FLOP/s, Median, Check, Samples");
    }

    #[test]
    fn missing_figures_come_last_either_way() {
        let cell = |v| Row::new("", vec![Cell::number(v, format::number)]);
        let rows = vec![cell(None), cell(Some(2.0)), cell(Some(f64::NAN)), cell(Some(1.0))];
        let sheet = Sheet { rows, ..Sheet::new("", vec![figures("v", "v (s)")]) };
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
        assert!(
            lines.next().unwrap().starts_with("rung,title,median (ms),MAD (ms),wall (ms),epoch time (ms),"),
            "{csv}"
        );
        assert!(lines.next().unwrap().starts_with("02_fused,Fused,3.0000,0.030,3.3000,0.015000,1.000,"), "{csv}");
        let csv = kernels(&run, run.main_problem().unwrap()).table().csv();
        assert!(csv.lines().next().unwrap().contains("Occupancy (%)"), "{csv}");
        assert!(
            csv.lines().nth(1).unwrap().starts_with("02_fused,pass; regression/02_fused.cu,sm_90,40,192,"),
            "{csv}"
        );
    }

    #[test]
    fn rows_are_sorted_by_figures_not_by_texts() {
        let mut run = sample_run();
        run.train_logs.clear();
        let sheet = rungs(&run, run.main_problem().unwrap());
        let sorted = |descending| column(&sheet, &sheet.sorted(Some(Sort { column: 1, descending })), "Rung");
        // 2.60 ms and 3.00 ms.
        assert_eq!(sorted(false), ["Fused in a graph", "Fused"]);
        assert_eq!(sorted(true), ["Fused", "Fused in a graph"]);
        run.measurements[0].samples_us = vec![900.0];
        let sheet = rungs(&run, run.main_problem().unwrap());
        let sorted = column(&sheet, &sheet.sorted(Some(Sort { column: 1, descending: false })), "Rung");
        assert_eq!(sorted, ["Fused", "Fused in a graph"], "900 µs before 2.60 ms");
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
        assert_eq!(column(&sheet, &rows, "Check"), ["Passed", "FAILED"]);
        assert!(sheet.rows[1].note.is_none() && sheet.rows[1].cells.iter().any(|c| c.detail.contains("not a number")));
        assert!(column(&sheet, &rows, "Remark")[1].starts_with("Check failed"));
        // Nor the other, whose training diverged: there is no time, and so no column of them.
        assert!(sheet.columns.iter().all(|c| !["Median", "Speed-up", "MAD"].contains(&c.label.as_str())), "{sheet:?}");
        assert!(!sheet.table().csv().contains("2.6000"));
    }

    #[test]
    fn a_skipped_rung_says_why_in_place_of_figures() {
        let mut value = sample();
        value["measurements"][1]["outcome"] = serde_json::json!({"status": "skipped", "why": "no GPU"});
        let run = crate::open::open(value.to_string().as_bytes()).unwrap();
        let sheet = rungs(&run, run.main_problem().unwrap());
        assert_eq!(
            sheet.rows[1].note.as_ref().map(|n| (n.text.as_str(), n.tone)),
            Some(("Skipped: no GPU", Tone::Quiet))
        );
        assert!(sheet.table().csv().contains("skipped: no GPU"));
        // The sample's first training diverged: the chart draws no bar of it either.
        let note = sheet.rows[0].note.as_ref();
        assert_eq!(note.map(|n| (n.text.as_str(), n.tone)), Some(("Diverged at epoch 20", Tone::Bad)));
    }

    #[test]
    fn rungs_say_what_bounds_them_what_was_chosen_and_whose_they_are() {
        let run = sample_run();
        let at = |short: &str| *run.problems().iter().find(|p| p.short == short).unwrap();
        let sheet = rungs(&run, at("1 M"));
        let get = |sheet: &Sheet, label: &str| column(sheet, &sheet.sorted(None), label);
        assert_eq!(get(&sheet, CHOSEN), [NONE, "800000 training points lie in one cluster."]);
        // The first rung's bytes were not counted: it is held against reading its inputs once a pass.
        assert_eq!(get(&sheet, "Bound by"), ["DRAM", "arithmetic"]);
        assert!(sheet.rows[1].cells.iter().any(|c| c.detail == "at least 15.2 µs"), "{sheet:?}");
        assert!(sheet.rows[1].cells[1].detail == "fastest" && sheet.rows[1].cells[1].tone == Tone::Good);
        let several = rungs(&run, at("5 M × 16"));
        assert!(several.columns.iter().all(|c| c.label != CHOSEN));
        assert_eq!(several.rows[0].cells[0].detail, "pytorch_eager, PyTorch 2.11.0");
        assert!(several.table().csv().lines().nth(1).unwrap().starts_with("pytorch_eager,\"PyTorch, eager\",90.000"));
    }

    #[test]
    fn a_rung_that_does_less_of_the_work_says_so_and_is_not_the_fastest() {
        let mut run = sample_run();
        run.measurements[3].flops = Some(16_000_000);
        let problem = run.measurements[3].problem.clone();
        let sheet = rungs(&run, &problem);
        assert_eq!(column(&sheet, &sheet.sorted(None), "Remark"), [NONE, "Does 1.2 % of the operations"]);
        assert_eq!([0, 1].map(|i| sheet.rows[i].cells[1].detail.clone()), ["fastest", ""]);
    }

    #[test]
    fn a_diverged_training_says_so() {
        let run = sample_run();
        let sheet = trainings(&run, run.main_problem().unwrap());
        assert_eq!(sheet.rows[0].cells[4].text, "Yes");
        assert_eq!(sheet.rows[0].cells[1].text, "b = 2.00000, w = 3.00000");
    }
}
