use crate::draw::text::words::{
    bandwidth, item_rate, item_rate_unit, memory, percent, rate, short, significant, time, times,
};
use crate::draw::{Table, clean};
use crate::record::names::{item, name, pass};
use crate::record::verdict::{bound, usable, verdict};
use warpbook_record::{Column, Descriptor, LadderRow, Problem, Run};

/// The ladder of one problem as a table: a row for each rung in the ladder's order, with the columns of the record's descriptor.
///
/// The notebooks, the page, the command line and the README all use it: [`LadderTable::table`] for reading, [`LadderTable::file`] for CSV.
#[derive(Debug, Clone, PartialEq)]
pub struct LadderTable {
    /// Columns that follow the column of the rung.
    pub headers: Vec<Header>,
    /// Rows of the rungs that have a measurement.
    pub rows: Vec<LadderTableRow>,
    /// Title of the rung that speed-ups refer to, if there is one.
    pub baseline: Option<String>,
    /// Title of the fastest GPU library, if one was measured.
    pub library: Option<String>,
}

/// The head of a column.
#[derive(Debug, Clone, PartialEq)]
pub struct Header {
    /// Quantity of the column.
    pub column: Column,
    /// Text for readers, such as "median"; its cells have units.
    pub text: String,
    /// Text above the plain numbers of a file, such as "median (ms)".
    pub in_file: String,
    /// True if the cells are figures, which are right-aligned.
    pub numeric: bool,
}

/// A cell of the ladder's table. All its fields may be empty.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Cell {
    /// Text for readers, with a unit: "2.94 ms".
    pub text: String,
    /// Figure in the unit of [`Header::in_file`], for sorting; always finite.
    pub number: Option<f64>,
    /// Additional words, such as "error 2.2e-7 ≤ 0.001"; usually empty.
    pub detail: String,
}

/// A rung's row of the ladder's table.
#[derive(Debug, Clone, PartialEq)]
pub struct LadderTableRow {
    /// Id of the rung.
    pub rung: String,
    /// Title of the rung, or its id if it has none.
    pub title: String,
    /// Cells, as many as there are headers.
    pub cells: Vec<Cell>,
    /// Reason why there are no figures, such as "skipped: needs a GPU"; the cells are then empty except for accuracy,
    /// check and tile.
    pub note: Option<String>,
    /// Share of the work's operations that the rung does, if that is less than half.
    pub less_work: Option<f64>,
    /// True for the fastest rung that does all of the work.
    pub fastest: bool,
}

/// Returns the ladder of one problem as a table for reading: ids, the descriptor's columns with units in their cells, and a last column with the
/// reason for missing figures.
#[must_use]
pub fn ladder_table(run: &Run, problem: &Problem) -> Table {
    LadderTable::for_problem(run, problem).table()
}

impl LadderTable {
    /// Makes the table with the columns of the record's descriptor, or a general set if this version knows none of them.
    #[must_use]
    pub fn for_problem(run: &Run, problem: &Problem) -> Self {
        Self::with(run, problem, &columns(run))
    }

    /// Makes the table with chosen columns; columns that this version does not know are left out.
    #[must_use]
    pub fn with(run: &Run, problem: &Problem, columns: &[Column]) -> Self {
        let headers: Vec<Header> = columns.iter().filter_map(|c| header(run, *c)).collect();
        let library = run.fastest_library(problem);
        let fastest = run.fastest(problem);
        let row = |row: LadderRow<'_>| {
            let m = row.measurement;
            let figures = Figures { run, row: &row, us: verdict(run, m), library: library.map(|l| l.1) };
            LadderTableRow {
                rung: m.rung.clone(),
                title: name(run, &m.rung),
                cells: headers.iter().map(|h| figures.cell(h.column)).collect(),
                less_work: m.does_less().then(|| m.operations() as f64 / problem.flops as f64),
                // Compares addresses, since a record may contain an id twice.
                fastest: fastest.is_some_and(|best| std::ptr::eq(best, m)),
                note: figures.us.err(),
            }
        };
        Self {
            rows: run.ladder(problem).into_iter().map(row).collect(),
            headers,
            baseline: run.baseline(problem).map(|m| name(run, &m.rung)),
            library: library.map(|(m, _)| name(run, &m.rung)),
        }
    }

    /// Returns a table for reading: the first column has the rung's id, the last one a remark.
    #[must_use]
    pub fn table(&self) -> Table {
        let headers = self.headers.iter().map(|h| h.text.as_str());
        let mut table = Table::new(["rung"].into_iter().chain(headers).chain(["remark"]));
        for row in &self.rows {
            let cells = row.cells.iter().map(|c| c.text.clone());
            let less = row.less_work.map(|share| format!("does {} of the operations", percent(share)));
            let remark = row.note.clone().or(less).unwrap_or_default();
            table.push(std::iter::once(row.rung.clone()).chain(cells).chain([remark]));
        }
        table
    }

    /// Returns a table for files: plain numbers, with their units in the headers. The first columns are the rung's id
    /// and title, the last one is its outcome.
    #[must_use]
    pub fn file(&self) -> Table {
        let headers = self.headers.iter().map(|h| h.in_file.as_str());
        let mut table = Table::new(["rung", "title"].into_iter().chain(headers).chain(["outcome"]));
        for row in &self.rows {
            let cells = row.cells.iter().zip(&self.headers).map(|(c, h)| match (c.number, digits(h.column)) {
                (Some(v), Digits::Significant(n)) => significant(v, n),
                (Some(v), Digits::All) => v.to_string(),
                (None, _) | (_, Digits::Words) => c.text.clone(),
            });
            let outcome = row.note.clone().unwrap_or_else(|| "measured".into());
            table.push([row.rung.clone(), row.title.clone()].into_iter().chain(cells).chain([outcome]));
        }
        table
    }
}

/// Returns the columns of the record's descriptor, or a general set if this version knows none of them.
pub(crate) fn columns(run: &Run) -> Vec<Column> {
    let known: Vec<Column> = run.descriptor.columns.iter().copied().filter(|c| header(run, *c).is_some()).collect();
    if known.is_empty() { Descriptor::default().columns } else { known }
}

/// Returns the plural noun for the record's samples.
pub(crate) fn sample(run: &Run) -> String {
    let own = clean(&run.descriptor.sample);
    if own.is_empty() { "samples".into() } else { own }
}

/// The format of a column's figures in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Digits {
    Significant(usize),
    All,
    /// The column has words instead of figures.
    Words,
}

fn digits(column: Column) -> Digits {
    match column {
        Column::Median | Column::Wall | Column::PassTime => Digits::Significant(5),
        Column::Mad | Column::Check => Digits::Significant(2),
        Column::OfBound => Digits::Significant(3),
        Column::Samples => Digits::All,
        Column::BoundBy | Column::Tile => Digits::Words,
        _ => Digits::Significant(4),
    }
}

/// Returns the header of a column; `None` if this version does not know it.
fn header(run: &Run, column: Column) -> Option<Header> {
    let in_ms = |text: String| (format!("{text} (ms)"), text);
    let alike = |text: &str| (text.to_owned(), text.to_owned());
    let (in_file, text) = match column {
        Column::Median => in_ms("median".into()),
        Column::Mad => in_ms("MAD".into()),
        Column::Wall => in_ms("wall".into()),
        Column::PassTime => in_ms(format!("{} time", pass(run))),
        Column::SpeedUp => alike("speed-up"),
        Column::Throughput => ("TFLOP/s".into(), "FLOP/s".into()),
        Column::Bandwidth => ("effective bandwidth (GB/s)".into(), "effective bandwidth".into()),
        Column::ItemRate => alike(&item_rate_unit(&item(run))),
        Column::OfLibrary => alike("of fastest library"),
        Column::OfBound => alike("% of bound"),
        Column::BoundBy => alike("bound by"),
        Column::Check => ("max relative error".into(), "check".into()),
        Column::Tile => alike("tile"),
        Column::Samples => alike(&sample(run)),
        Column::PeakMemory => ("peak memory (MiB)".into(), "peak memory".into()),
        Column::Accuracy => ("mean accuracy (%)".into(), "mean accuracy".into()),
        _ => return None,
    };
    let numeric = !matches!(column, Column::BoundBy | Column::Check | Column::Tile);
    Some(Header { column, text, in_file, numeric })
}

/// The data for the cells of a row.
struct Figures<'a> {
    run: &'a Run,
    row: &'a LadderRow<'a>,
    /// Median in microseconds, or the reason why there is none.
    us: Result<f64, String>,
    /// Median of the fastest library in microseconds.
    library: Option<f64>,
}

impl Figures<'_> {
    fn cell(&self, column: Column) -> Cell {
        let (run, m) = (self.run, self.row.measurement);
        match column {
            Column::Check => return self.check(),
            Column::Tile => return words(m.tile.as_deref().unwrap_or_default()),
            // The accuracy explains why a training that missed its goal has no time.
            Column::Accuracy => return self.accuracy(),
            _ => {}
        }
        let Ok(us) = self.us else { return Cell::default() };
        let in_ms = |us: Option<f64>| figure(us.map(|us| us / 1e3), |ms| time(ms * 1e3));
        match column {
            Column::Median => in_ms(Some(us)),
            Column::Wall => in_ms(usable(m.median_wall_us())),
            Column::PassTime => in_ms(m.pass_us()),
            // A single sample has no deviation.
            Column::Mad => figure(m.mad_us().filter(|_| m.samples_us.len() > 1).map(|us| us / 1e3), |ms| {
                format!("± {}", time(ms * 1e3))
            }),
            Column::SpeedUp => figure(self.row.speed_up, times),
            Column::Throughput => {
                let tera = m.flops_per_s().filter(|v| *v > 0.0).map(|v| v / 1e12);
                figure(tera, |v| rate(v * 1e12))
            }
            Column::Bandwidth => {
                let giga = m.effective_bytes_per_s().filter(|v| *v > 0.0).map(|v| v / 1e9);
                figure(giga, |v| bandwidth(v * 1e9))
            }
            Column::ItemRate => figure(m.items_per_s().filter(|v| *v > 0.0), |v| item_rate(v, &item(run))),
            Column::OfLibrary => figure(self.library.map(|library| library / us), times),
            Column::OfBound => figure(bound(run, self.row).map(|(_, share)| share * 100.0), |v| percent(v / 100.0)),
            Column::BoundBy => bound(run, self.row).map_or_else(Cell::default, |(b, _)| Cell {
                detail: format!("at least {}", time(b.us)),
                ..words(b.label())
            }),
            Column::PeakMemory => {
                let in_mib = m.peak_bytes.map(|b| b as f64 / 1_048_576.0);
                figure(in_mib, |mib| memory(mib * 1_048_576.0))
            }
            Column::Samples => figure(Some(m.samples_total.max(m.samples_us.len() as u64) as f64), |n| n.to_string()),
            _ => Cell::default(),
        }
    }

    /// Returns a cell with an accuracy such as "90.42 % ± 0.15"; a single training has no deviation.
    fn accuracy(&self) -> Cell {
        let m = self.row.measurement;
        let Some((mean, deviation)) = m.accuracy() else { return Cell::default() };
        let cell = figure(Some(mean * 100.0), |mean| format!("{mean:.2} %"));
        if m.test.len() < 2 {
            return cell;
        }
        let detail = format!("mean and standard deviation of {} {}", m.test.len(), sample(self.run));
        Cell { text: format!("{} ± {:.2}", cell.text, deviation * 100.0), detail, ..cell }
    }

    fn check(&self) -> Cell {
        let Some(check) = &self.row.measurement.check else { return Cell::default() };
        let (error, tolerance) = (check.max_rel_error, check.tolerance);
        // A measurement is checked twice. If either check fails, the stored error may still be within the tolerance.
        let sign = match (check.passed, error <= tolerance) {
            (true, _) => "≤",
            (false, true) => "against",
            (false, false) => "exceeds",
        };
        let detail = format!("error {} {sign} {}", short(error), short(tolerance));
        let text = if check.passed { "passed" } else { "FAILED" };
        Cell { text: text.into(), number: Some(error).filter(|e| e.is_finite()), detail }
    }
}

fn words(text: &str) -> Cell {
    Cell { text: clean(text), ..Cell::default() }
}

/// Makes a cell; empty if there is no figure, or if it is not finite.
fn figure(value: Option<f64>, text: impl Fn(f64) -> String) -> Cell {
    let value = value.filter(|v| v.is_finite());
    Cell { text: value.map(text).unwrap_or_default(), number: value, detail: String::new() }
}
