//! Heat maps of shapes against rungs: each cell is a ratio of times, which shows where a rung beats the libraries.

mod bands;
mod draw;

use crate::draw::text::words::significant;
use crate::draw::{Chart, ChartError, Font, MARGIN, MAX_ENTRIES, MarkData, Options, clean, is_narrow};
use crate::record::{Measure, joined, label, name, verdict};
use bands::{Band, ratio_text};
use warpbook_record::{Dtype, Measurement, Problem, Quantity, Run, Runner};

impl Options {
    /// Draws a heat map of the problems of one type. Rows are problems; the first column is the best kernel, and the
    /// others are the kernel rungs. Each cell is the time of the fastest GPU library divided by the time of the rung.
    ///
    /// Above 1.00 the rung is faster. A cell without a figure has a letter for the reason, explained below; rungs without any figure have no column.
    /// Problems measured with less than half of the rungs come last, below columns of these rungs only.
    ///
    /// # Errors
    /// Returns [`ChartError::NothingToDraw`] if the record has no problem of that type, no figure of a library, or no figure of a kernel rung.
    pub fn shapes(&self, run: &Run, dtype: Dtype) -> Result<Chart, ChartError> {
        let nothing = |why: String| Err(ChartError::NothingToDraw(why));
        let problems: Vec<&Problem> = run.problems().into_iter().filter(|p| p.dtype == dtype).collect();
        if problems.is_empty() {
            return nothing(format!("The record has no problem in {}.", dtype.label()));
        }
        let rows: Vec<Shape<'_>> = problems
            .into_iter()
            .map(|problem| Shape { problem, name: shape_name(problem), library: run.fastest_library(problem) })
            .collect();
        if rows.iter().all(|r| r.library.is_none()) {
            return nothing(format!(
                "No library has a valid figure of {}, so there is nothing to compare rungs with.",
                dtype.label()
            ));
        }
        let ours = run
            .rungs
            .iter()
            .filter(|r| matches!(r.runner, Runner::Kernels { .. } | Runner::Chosen(_)))
            .map(|r| r.id.as_ref());
        let rate = Measure::new(run, run.descriptor.headline);
        let mut map = HeatMap {
            options: self,
            run,
            dtype,
            rate,
            rows,
            columns: Vec::new(),
            empty: Vec::new(),
            reasons: Vec::new(),
        };
        for rung in ours {
            let present = map.rows.iter().any(|r| run.measurement(rung, r.problem).is_some());
            let valid = map.rows.iter().any(|r| map.ratio(rung, r).is_ok());
            if valid {
                map.columns.push(rung);
            } else if present {
                map.empty.push(rung);
            }
        }
        if map.columns.is_empty() {
            return nothing(format!(
                "No rung of kernels has a valid figure of {} where a library has one.",
                dtype.label()
            ));
        }
        map.draw()
    }
}

/// Returns the name of a problem's row. All rows have the same type, so a label made of size and type is shown without
/// the type.
fn shape_name(problem: &Problem) -> String {
    let (label, short) = (label(problem), clean(&problem.short));
    let of_type = label.strip_prefix(&short).and_then(|rest| rest.trim_start().strip_prefix(problem.dtype.label()));
    match of_type {
        Some(more) if !short.is_empty() => joined([short.as_str(), more.trim_start_matches([' ', ','])]),
        // A long label would be cut off at its end, which is the part that distinguishes it, so the short name is used instead.
        _ if !short.is_empty() && Font::NOTE.width(&label) > LONG_LABEL => short,
        _ => label,
    }
}

struct Shape<'a> {
    problem: &'a Problem,
    name: String,
    /// The fastest library, and its time in microseconds.
    library: Option<(&'a Measurement, f64)>,
}

/// A ratio, or the letter and the text of the reason why there is none.
type RatioOrReason = Result<f64, (String, String)>;

struct HeatMap<'a> {
    options: &'a Options,
    run: &'a Run,
    dtype: Dtype,
    /// The rate that is shown for the library beside a row's name.
    rate: Measure,
    rows: Vec<Shape<'a>>,
    /// Ids of the rungs that have a figure, in the ladder's order.
    columns: Vec<&'a str>,
    /// Ids of the rungs without a figure.
    empty: Vec<&'a str>,
    /// Reasons for empty cells, in the order of their letters, with their counts.
    reasons: Vec<(String, usize)>,
}

const CELL: f64 = 24.0;
/// Gap between the column of the best kernels and the other columns.
const GAP: f64 = 6.0;
const MAX_COLUMNS: usize = 20;
/// Smallest width of the column of the best kernels.
const BEST_CELL: f64 = 36.0;
/// Smallest width of a column in a narrow chart.
const NARROW_CELL: f64 = 38.0;
/// Smallest width of any other column.
const LEAST_CELL: f64 = 26.0;
/// Height of a row's name above its cells.
const NAME_LINE: f64 = 18.0;
/// A label wider than this is replaced by the problem's size.
const LONG_LABEL: f64 = 180.0;
/// Largest width of a row's name.
const LONGEST_NAME: f64 = 230.0;
/// Largest length of a column's name.
const LONGEST_TITLE: f64 = 170.0;
/// Gap between parts of a panel side by side.
const GUTTER: f64 = 28.0;
/// Smallest number of rows in one part of a panel.
const LEAST_ROWS: usize = 6;
/// Height of the caption above each further panel, with the space before it.
const CAPTION: f64 = 40.0;

/// Rows with the same columns, one below the other.
#[derive(Clone)]
struct Panel<'a> {
    /// Indices of the map's rows.
    rows: Vec<usize>,
    /// Ids of the rungs that have a column.
    shown: Vec<&'a str>,
    /// Number of columns before the rungs' columns: one for the best kernel, unless it would repeat the only rung's column.
    before: usize,
    header: f64,
    /// Left edge of the names.
    names: f64,
    /// Right edge of the library's figures.
    figures: f64,
    left: f64,
    cell: f64,
}

impl Panel<'_> {
    /// Returns the width of the column of the best kernels, which has figures of three digits.
    fn best(&self) -> f64 {
        self.cell.max(BEST_CELL)
    }

    /// Returns the left edge of a rung's column.
    fn column(&self, j: usize) -> f64 {
        self.left + if self.before > 0 { GAP + self.best() } else { 0.0 } + j as f64 * self.cell
    }

    /// Splits the rows into as many parts side by side as the width has room for, since a map of few columns would otherwise be long.
    fn abreast(self, width: f64) -> Vec<Self> {
        let each = self.column(self.shown.len()) - self.names + GUTTER;
        let room = ((width - 2.0 * MARGIN + GUTTER) / each) as usize;
        let parts = room.min(self.rows.len() / LEAST_ROWS).max(1);
        let rows = self.rows.chunks(self.rows.len().div_ceil(parts)).enumerate();
        let part = |(i, rows): (usize, &[usize])| {
            let by = i as f64 * each;
            let (names, figures, left) = (self.names + by, self.figures + by, self.left + by);
            Self { rows: rows.to_vec(), names, figures, left, ..self.clone() }
        };
        rows.map(part).collect()
    }
}

impl<'a> HeatMap<'a> {
    /// Returns a rung's ratio at a shape, or the reason why there is none.
    fn ratio(&self, rung: &str, row: &Shape<'a>) -> Result<f64, String> {
        let Some(m) = self.run.measurement(rung, row.problem) else { return Err("not measured".into()) };
        let us = verdict(self.run, m)?;
        let (_, library) = row.library.ok_or("no library has a valid figure at this size")?;
        Ok(library / us)
    }

    /// Returns the number of samples that all cells of a row have, or 0 if it differs.
    fn samples<'r>(&self, row: &Shape<'a>, mut rungs: impl Iterator<Item = &'r str>) -> u64 {
        let samples_of = |rung: &str| {
            self.run.measurement(rung, row.problem).map_or(0, |m| m.samples_total.max(m.samples_us.len() as u64))
        };
        let first = rungs.next().map_or(0, samples_of);
        if rungs.all(|r| samples_of(r) == first) { first } else { 0 }
    }

    /// Describes a cell for its mark. The row carries the problem, the column's heading the name, and the series is the
    /// band's number. The value begins with the figure in the cell, so that speech control finds the mark by it.
    fn data(&self, rung: &str, row: &Shape<'a>, (ratio, shown): (f64, &str), of_row: u64) -> MarkData {
        let whole = ratio_text(ratio);
        let samples =
            self.run.measurement(rung, row.problem).map_or(0, |m| m.samples_total.max(m.samples_us.len() as u64));
        MarkData {
            rung: rung.to_owned(),
            value: if whole.ends_with(shown) { whole } else { format!("{shown} ({whole})") },
            series: Band::number(ratio).to_string(),
            samples: if samples == of_row { 0 } else { samples },
            ..MarkData::default()
        }
    }

    /// Returns the fastest kernel rung at a shape.
    fn best(&self, row: &Shape<'a>) -> Option<(&'a str, f64)> {
        let (m, _) = self.run.fastest_kernels(row.problem)?;
        Some((m.rung.as_str(), self.ratio(&m.rung, row).ok()?))
    }

    /// Returns the letter for a reason.
    fn letter(&mut self, why: &str) -> String {
        let at = self.reasons.iter().position(|r| r.0 == why).unwrap_or_else(|| {
            self.reasons.push((why.to_owned(), 0));
            self.reasons.len() - 1
        });
        self.reasons[at].1 += 1;
        // Beyond 26 reasons, only the tooltips and the table name the reason.
        u8::try_from(at).ok().filter(|n| *n < 26).map_or("–".into(), |n| char::from(b'a' + n).to_string())
    }

    /// Returns the library's figure, as a plain number if it is a rate.
    fn library_rate(&self, row: &Shape<'_>) -> Option<String> {
        let (m, us) = row.library?;
        let value = self.rate.value_of(m, us, self.run.baseline(row.problem).and_then(Measurement::median_us));
        Some(match self.rate.quantity {
            Quantity::Throughput | Quantity::Bandwidth => significant(value / self.rate.in_file().1, 3),
            _ => self.rate.text(value),
        })
    }

    /// Returns a header such as "library, TFLOP/s".
    fn library_header(&self) -> String {
        match self.rate.quantity {
            Quantity::Throughput => "library, TFLOP/s".into(),
            Quantity::Bandwidth => "library, GB/s".into(),
            _ => format!("library, {}", self.rate.name()),
        }
    }

    /// Splits the rows into two groups: problems measured with most rungs, and problems with few rungs, which would
    /// have mostly empty cells.
    fn groups(&self) -> Vec<Vec<usize>> {
        let present = |row: &Shape<'a>| {
            self.columns.iter().filter(|rung| self.run.measurement(rung, row.problem).is_some()).count()
        };
        let by_many = |i: &usize| 2 * present(&self.rows[*i]) >= self.columns.len();
        let (many, few): (Vec<usize>, Vec<usize>) = (0..self.rows.len()).partition(by_many);
        let mut left = MAX_ENTRIES;
        let groups = [many, few].into_iter().map(|mut rows| {
            rows.truncate(left);
            left -= rows.len();
            rows
        });
        groups.filter(|rows| !rows.is_empty()).collect()
    }

    fn panel(&self, rows: Vec<usize>) -> Panel<'a> {
        let (width, narrow) = (self.options.px(), self.is_narrow());
        let rows_of_problem = || rows.iter().map(|i| &self.rows[*i]);
        let names = rows_of_problem().map(|r| Font::NOTE.width(&r.name)).fold(0.0, f64::max).clamp(50.0, LONGEST_NAME);
        let rates = rows_of_problem().filter_map(|r| self.library_rate(r)).map(|r| Font::NOTE.width(&r));
        let named = if narrow { 0.0 } else { names + 14.0 };
        let figures = MARGIN + named + rates.fold(16.0, f64::max).min(70.0);
        let left = figures + 10.0;
        let room = width - MARGIN - left - GAP - (BEST_CELL - LEAST_CELL);
        let least = if narrow { NARROW_CELL } else { LEAST_CELL };
        let shown = self.shown(&rows, ((room / least) as usize).saturating_sub(1).max(1));
        let before = usize::from(shown.len() > 1);
        let cell = (room / (shown.len() + before) as f64).min(44.0);
        let titles = shown.iter().map(|id| Font::SMALL.width(&name(self.run, id)));
        let header = titles.fold(Font::SMALL.width(&self.library_header()), f64::max).min(LONGEST_TITLE) + 8.0;
        Panel { rows, shown, before, header, names: MARGIN, figures, left, cell }
    }

    fn is_narrow(&self) -> bool {
        is_narrow(self.options.px())
    }

    /// Returns the rungs that have a column and were measured at one of these rows; if there are too many, the fastest of them.
    fn shown(&self, rows: &[usize], most: usize) -> Vec<&'a str> {
        let is_there = |rung: &&str| rows.iter().any(|i| self.run.measurement(rung, self.rows[*i].problem).is_some());
        let columns: Vec<&'a str> = self.columns.iter().copied().filter(is_there).collect();
        if columns.len() <= most {
            return columns.into_iter().take(MAX_COLUMNS).collect();
        }
        let ratios =
            |rung: &str| rows.iter().filter_map(|i| self.ratio(rung, &self.rows[*i]).ok()).collect::<Vec<f64>>();
        let mean = |all: &[f64]| all.iter().map(|r| r.max(1e-9).ln()).sum::<f64>() / all.len().max(1) as f64;
        let mut by_mean: Vec<(f64, &str)> = columns.iter().map(|rung| (mean(&ratios(rung)), *rung)).collect();
        by_mean.sort_by(|a, b| b.0.total_cmp(&a.0));
        by_mean.truncate(most.min(MAX_COLUMNS));
        columns.into_iter().filter(|rung| by_mean.iter().any(|b| b.1 == *rung)).collect()
    }
}
