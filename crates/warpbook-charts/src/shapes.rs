//! Shapes against rungs, each cell a ratio of times: where a rung is ahead of the libraries, and where it is not.

use crate::canvas::{At, Canvas, Drawn, Font, Frame, MARGIN, Paint, Stroke};
use crate::common::{MAX_ENTRIES, device, heading, joined, l2, label, medians, name, verdict};
use crate::facts::Facts;
use crate::measure::Measure;
use crate::options::{Options, is_narrow};
use crate::palette::{BLUE, Rgb, VERMILLION};
use crate::text::clean;
use crate::words::{counted, listed, significant};
use crate::{Chart, ChartError, Quantity, Table};
use warpbook_record::{Dtype, Measurement, Problem, Run, Runner};

/// A heat map of the problems of one type: a row for each, a column for each rung of kernels after one for the best of them, and in
/// each cell the time of the fastest GPU library over the rung's.
///
/// Above 1.00 the rung is faster. A cell without a figure has a letter for the reason, given below; rungs without any
/// figure have no column. Problems that less than half of the rungs were measured at come last, below columns of these rungs only.
///
/// # Errors
/// [`ChartError::NothingToDraw`] where the record has no problem of that type, no figure of a library, or none of a rung of kernels.
pub fn shapes(run: &Run, dtype: Dtype) -> Result<Chart, ChartError> {
    shapes_with(&Options::default(), run, dtype)
}

pub(crate) fn shapes_with(options: &Options, run: &Run, dtype: Dtype) -> Result<Chart, ChartError> {
    let nothing = |why: String| Err(ChartError::NothingToDraw(why));
    let problems: Vec<&Problem> = run.problems().into_iter().filter(|p| p.dtype == dtype).collect();
    if problems.is_empty() {
        return nothing(format!("The record has no problem of {}.", dtype.label()));
    }
    let rows: Vec<Shape<'_>> = problems
        .into_iter()
        .map(|problem| Shape { problem, name: shape_name(problem), library: run.fastest_library(problem) })
        .collect();
    if rows.iter().all(|r| r.library.is_none()) {
        return nothing(format!(
            "No library has a valid figure of {}, so there is nothing to hold rungs against.",
            dtype.label()
        ));
    }
    let ours = run
        .rungs
        .iter()
        .filter(|r| matches!(r.runner, Runner::Kernels { .. } | Runner::Chosen(_)))
        .map(|r| r.id.as_ref());
    let rate = Measure::new(run, run.descriptor.headline);
    let mut map =
        HeatMap { options, run, dtype, rate, rows, columns: Vec::new(), empty: Vec::new(), reasons: Vec::new() };
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
        return nothing(format!("No rung of kernels has a valid figure of {} where a library has one.", dtype.label()));
    }
    map.draw()
}

/// A problem as its row is called. All rows are of one type, so a label that is its size and its type is shown without the type.
fn shape_name(problem: &Problem) -> String {
    let (label, short) = (label(problem), clean(&problem.short));
    let of_type = label.strip_prefix(&short).and_then(|rest| rest.trim_start().strip_prefix(problem.dtype.label()));
    match of_type {
        Some(more) if !short.is_empty() => joined([short.as_str(), more.trim_start_matches([' ', ','])]),
        // What is cut off would be what tells it from others.
        _ if !short.is_empty() && Font::NOTE.width(&label) > LONG_LABEL => short,
        _ => label,
    }
}

struct Shape<'a> {
    problem: &'a Problem,
    name: String,
    /// The fastest of the libraries, and its time.
    library: Option<(&'a Measurement, f64)>,
}

/// A ratio, or the letter of a reason and the reason.
type Content = Result<f64, (String, String)>;

struct HeatMap<'a> {
    options: &'a Options,
    run: &'a Run,
    dtype: Dtype,
    /// What is shown next to a row's name: the library's figure of the record's headline.
    rate: Measure,
    rows: Vec<Shape<'a>>,
    /// Ids of the rungs that have a figure, in the ladder's order.
    columns: Vec<&'a str>,
    /// Ids of those that have none.
    empty: Vec<&'a str>,
    /// Why cells are empty, in the order of their letters, and how many are.
    reasons: Vec<(String, usize)>,
}

/// A range of ratios from this one on, up to the next; and how it is painted.
struct Band {
    from: f64,
    color: Option<Rgb>,
    alpha: f64,
}

const fn band(from: f64, color: Rgb, alpha: f64) -> Band {
    Band { from, color: Some(color), alpha }
}

/// From slow to fast; within 2 % of the library there is no colour.
const BANDS: [Band; 8] = [
    band(0.0, VERMILLION, 0.62),
    band(0.4, VERMILLION, 0.46),
    band(0.7, VERMILLION, 0.30),
    band(0.9, VERMILLION, 0.15),
    Band { from: 0.98, color: None, alpha: 0.05 },
    band(1.02, BLUE, 0.20),
    band(1.08, BLUE, 0.38),
    band(1.2, BLUE, 0.58),
];

impl Band {
    fn paint(&self) -> Paint {
        self.color.map_or(Paint { alpha: self.alpha, ..Paint::INK }, |c| Paint::faded(c, self.alpha))
    }

    fn of(ratio: f64) -> &'static Self {
        &BANDS[Self::number(ratio)]
    }

    fn number(ratio: f64) -> usize {
        BANDS.iter().rposition(|b| ratio >= b.from).unwrap_or(0)
    }

    fn name(number: usize) -> String {
        match BANDS.get(number + 1) {
            None => format!("≥ {:.2}", BANDS[number].from),
            Some(next) if number == 0 => format!("< {:.2}", next.from),
            Some(next) => format!("{:.2}–{:.2}", BANDS[number].from, next.from),
        }
    }
}

/// A ratio in at most five characters; one that is below 1 does not read as 1.
fn ratio_text(ratio: f64) -> String {
    match ratio {
        r if r >= 9_999.5 => ">9999".into(),
        r if r >= 9.995 => significant(r, 3),
        r if (0.995..1.0).contains(&r) => format!("{:.3}", r.min(0.999)),
        r if r >= 0.0995 => format!("{r:.2}"),
        r if r >= 0.0005 => format!("{r:.3}"),
        _ => "0.000".into(),
    }
}

/// A ratio as a cell shows it. Where there is no room for all of it next to the neighbour's, it has two digits: without its leading zero below 1, and
/// with one decimal or none above.
fn figure(ratio: f64, cell: f64, font: Font) -> String {
    let text = ratio_text(ratio);
    if font.width(&text) + LEAST_GAP <= cell {
        return text;
    }
    match format!("{ratio:.2}").strip_prefix('0') {
        Some(short) => short.to_owned(),
        None if ratio < 9.95 => format!("{ratio:.1}"),
        None if ratio < 99.5 => format!("{ratio:.0}"),
        None => ">99".into(),
    }
}

/// Between the figures of neighbouring cells.
const LEAST_GAP: f64 = 4.0;
const CELL: f64 = 24.0;
const BAND: f64 = 80.0;
/// Bands, and the line above them.
const LEGEND: f64 = 52.0;
/// Between the column of the best and the others.
const GAP: f64 = 6.0;
const MAX_COLUMNS: usize = 20;
/// The column of the best is this wide at least.
const BEST_CELL: f64 = 36.0;
/// A column of a narrow chart is this wide at least.
const NARROW_CELL: f64 = 38.0;
/// The same of others.
const LEAST_CELL: f64 = 26.0;
/// The height of a row's name above its cells.
const NAME_LINE: f64 = 18.0;
/// A label that is wider gives way to the problem's size.
const LONG_LABEL: f64 = 180.0;
/// The widest name of a row.
const LONGEST_NAME: f64 = 230.0;
/// The longest name of a column.
const LONGEST_TITLE: f64 = 170.0;
/// Between parts of a panel that lie next to each other.
const GUTTER: f64 = 28.0;
/// Such a part has so many rows at least.
const LEAST_ROWS: usize = 6;
/// The line above a further panel, with the space before it.
const CAPTION: f64 = 40.0;
const FIGURE: Font = Font { size: 12.0, bold: false, paint: Paint::INK };

/// Rows below each other that share columns.
#[derive(Clone)]
struct Panel<'a> {
    /// Numbers of the map's rows.
    rows: Vec<usize>,
    /// The rungs that have a column each.
    shown: Vec<&'a str>,
    /// Columns before these: that of the best kernel, unless it would be the only rung's again.
    before: usize,
    header: f64,
    /// Where names begin.
    names: f64,
    /// Where the library's figures end.
    figures: f64,
    left: f64,
    cell: f64,
}

impl Panel<'_> {
    /// The width of the column of the best kernels, whose figures have three digits.
    fn best(&self) -> f64 {
        self.cell.max(BEST_CELL)
    }

    /// The left edge of a rung's column.
    fn column(&self, j: usize) -> f64 {
        self.left + if self.before > 0 { GAP + self.best() } else { 0.0 } + j as f64 * self.cell
    }

    /// The same rows in parts next to each other, as many as a drawing of that width has room for, so that few columns do not make it long.
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
    /// A rung's ratio at a shape, or why there is none.
    fn ratio(&self, rung: &str, row: &Shape<'a>) -> Result<f64, String> {
        let Some(m) = self.run.measurement(rung, row.problem) else { return Err("not measured".into()) };
        let us = verdict(self.run, m)?;
        let (_, library) = row.library.ok_or("no library has a valid figure at this size")?;
        Ok(library / us)
    }

    /// The number of samples that all of a row's cells have, else 0.
    fn samples<'r>(&self, row: &Shape<'a>, mut rungs: impl Iterator<Item = &'r str>) -> u64 {
        let of = |rung: &str| {
            self.run.measurement(rung, row.problem).map_or(0, |m| m.samples_total.max(m.samples_us.len() as u64))
        };
        let first = rungs.next().map_or(0, of);
        if rungs.all(|r| of(r) == first) { first } else { 0 }
    }

    /// Describes a cell for its mark. The problem is the row's, the column's heading holds the name, and the series is the number of the band. The value
    /// begins with the figure that the cell shows: speech control then finds the mark by that figure.
    fn facts(&self, rung: &str, row: &Shape<'a>, (ratio, shown): (f64, &str), of_row: u64) -> Facts {
        let whole = ratio_text(ratio);
        let samples =
            self.run.measurement(rung, row.problem).map_or(0, |m| m.samples_total.max(m.samples_us.len() as u64));
        Facts {
            rung: rung.to_owned(),
            value: if whole.ends_with(shown) { whole } else { format!("{shown} ({whole})") },
            series: Band::number(ratio).to_string(),
            samples: if samples == of_row { 0 } else { samples },
            ..Facts::default()
        }
    }

    /// The fastest rung of kernels at a shape.
    fn best(&self, row: &Shape<'a>) -> Option<(&'a str, f64)> {
        let (m, _) = self.run.fastest_kernels(row.problem)?;
        Some((m.rung.as_str(), self.ratio(&m.rung, row).ok()?))
    }

    /// The letter for a reason.
    fn letter(&mut self, why: &str) -> String {
        let at = self.reasons.iter().position(|r| r.0 == why).unwrap_or_else(|| {
            self.reasons.push((why.to_owned(), 0));
            self.reasons.len() - 1
        });
        self.reasons[at].1 += 1;
        // Of more reasons than letters the tooltips and the table speak.
        u8::try_from(at).ok().filter(|n| *n < 26).map_or("–".into(), |n| char::from(b'a' + n).to_string())
    }

    /// The library's figure, in plain numbers where it is a rate.
    fn library_rate(&self, row: &Shape<'_>) -> Option<String> {
        let (m, us) = row.library?;
        let value = self.rate.of(m, us, self.run.baseline(row.problem).and_then(Measurement::median_us));
        Some(match self.rate.quantity {
            Quantity::Throughput | Quantity::Bandwidth => significant(value / self.rate.in_file().1, 3),
            _ => self.rate.text(value),
        })
    }

    /// As in "library, TFLOP/s".
    fn library_header(&self) -> String {
        match self.rate.quantity {
            Quantity::Throughput => "library, TFLOP/s".into(),
            Quantity::Bandwidth => "library, GB/s".into(),
            _ => format!("library, {}", self.rate.name()),
        }
    }

    /// The rows that most rungs were measured at, and apart from them those of few rungs, whose rows would be full of cells that say so.
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
        let of = || rows.iter().map(|i| &self.rows[*i]);
        let names = of().map(|r| Font::NOTE.width(&r.name)).fold(0.0, f64::max).clamp(50.0, LONGEST_NAME);
        let rates = of().filter_map(|r| self.library_rate(r)).map(|r| Font::NOTE.width(&r));
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

    /// The rungs that have a column, as they were measured at one of these rows: of more than there is room for those that are the fastest.
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

    fn draw(mut self) -> Result<Chart, ChartError> {
        let (px, narrow) = (self.options.px(), self.is_narrow());
        let groups = self.groups().into_iter().map(|rows| self.panel(rows)).enumerate();
        let groups: Vec<Vec<Panel<'a>>> =
            groups.map(|(i, panel)| if i == 0 || narrow { vec![panel] } else { panel.abreast(px) }).collect();
        let legend = LEGEND + if narrow { 22.0 + 16.0 } else { 0.0 };
        // Letters are given in reading order, before the remarks are written.
        let cells: Vec<Vec<Vec<Vec<Content>>>> =
            groups.iter().map(|panels| panels.iter().map(|panel| self.cells(panel)).collect()).collect();
        let line = CELL + if narrow { NAME_LINE } else { 0.0 };
        // The first part of a group is the longest.
        let heights: Vec<f64> = groups.iter().map(|p| p[0].header + p[0].rows.len() as f64 * line).collect();
        let height = legend + heights.iter().sum::<f64>() + CAPTION * (groups.len() - 1) as f64 + 4.0;
        self.frame(&groups).draw(height, |canvas, top| {
            draw_legend(canvas, top)?;
            let mut y = top + legend;
            for (i, (panels, cells)) in groups.iter().zip(&cells).enumerate() {
                if i > 0 {
                    let few = match panels[0].shown.len() {
                        0 => "Measured with none of the rungs".to_owned(),
                        n => format!("Measured with {} only", counted(n, "rung")),
                    };
                    let font = Font { bold: true, paint: Paint::INK, ..Font::SMALL };
                    canvas.elided(&few, canvas.width() - 2.0 * MARGIN, (MARGIN, y + CAPTION - 12.0), At::Left, font)?;
                    y += CAPTION;
                }
                for (panel, cells) in panels.iter().zip(cells) {
                    self.draw_panel(canvas, panel, cells, y)?;
                }
                y += heights[i];
            }
            Ok(())
        })
    }

    /// What the cells of a panel show, row by row.
    fn cells(&mut self, panel: &Panel<'a>) -> Vec<Vec<Content>> {
        let of_row = |i: &usize| {
            let ratios: Vec<_> = panel.shown.iter().map(|rung| self.ratio(rung, &self.rows[*i])).collect();
            ratios.into_iter().map(|r| r.map_err(|why| (self.letter(&why), why))).collect()
        };
        panel.rows.iter().map(of_row).collect()
    }

    fn draw_panel(&self, canvas: &Canvas<'_>, panel: &Panel<'a>, cells: &[Vec<Content>], top: f64) -> Drawn {
        let above = if self.is_narrow() { NAME_LINE } else { 0.0 };
        let first = top + panel.header;
        self.draw_headers(canvas, panel, first - 5.0)?;
        for (i, (row, cells)) in panel.rows.iter().map(|i| &self.rows[*i]).zip(cells).enumerate() {
            let best = self.best(row).filter(|_| panel.before > 0);
            let drawn = panel.shown.iter().zip(cells).filter(|(_, c)| c.is_ok()).map(|(rung, _)| *rung);
            let samples = self.samples(row, drawn.chain(best.map(|b| b.0)));
            canvas.marked(&Facts { samples, ..Facts::of_problem(row.problem) }, || {
                let y = first + i as f64 * (CELL + above) + above;
                let middle = y + CELL / 2.0;
                let ink = Font { paint: Paint::INK, ..Font::NOTE };
                let (room, at) = match above > 0.0 {
                    true => (canvas.width() - 2.0 * MARGIN, y - above / 2.0 + 1.0),
                    false => (panel.figures - panel.names - 14.0 - 16.0, middle),
                };
                canvas.elided(&row.name, room, (panel.names, at), At::Left, ink)?;
                let rate = self.library_rate(row).unwrap_or_else(|| "–".into());
                canvas.elided(&rate, 70.0, (panel.figures, middle), At::Right, Font::NOTE)?;
                let cell = |at: f64, wide: f64| (at, at + wide - 1.0);
                let whole = (y, y + CELL - 1.0);
                if let Some((rung, ratio)) = best {
                    let bold = Font { bold: true, ..FIGURE };
                    let at = (panel.left + panel.best() / 2.0, middle);
                    let shown = figure(ratio, panel.best(), bold);
                    canvas.marked(&self.facts(rung, row, (ratio, &shown), samples), || {
                        canvas.rect(cell(panel.left, panel.best()), whole, Band::of(ratio).paint())?;
                        canvas.titled(&shown, &name(self.run, rung), at, At::Middle, bold)
                    })?;
                }
                for (j, content) in cells.iter().enumerate() {
                    let left = panel.column(j);
                    let at = (left + panel.cell / 2.0, middle);
                    match content {
                        Ok(ratio) => {
                            let shown = figure(*ratio, panel.cell, FIGURE);
                            canvas.marked(&self.facts(panel.shown[j], row, (*ratio, &shown), samples), || {
                                canvas.rect(cell(left, panel.cell), whole, Band::of(*ratio).paint())?;
                                canvas.text(&shown, at, At::Middle, FIGURE)
                            })?;
                        }
                        Err((letter, why)) => {
                            canvas.titled(letter, why, at, At::Middle, Font { paint: Paint::MUTED, ..FIGURE })?;
                        }
                    }
                }
                Ok(())
            })?;
        }
        if panel.before == 0 {
            return Ok(());
        }
        let bottom = first + panel.rows.len() as f64 * (CELL + above);
        let x = panel.left + panel.best() + GAP / 2.0 - 0.5;
        canvas.line(&[(x, first), (x, bottom)], Stroke::new(Paint::MUTED, 1.0))
    }

    fn draw_headers(&self, canvas: &Canvas<'_>, panel: &Panel<'a>, bottom: f64) -> Drawn {
        let room = panel.header - 8.0;
        canvas.upwards(&self.library_header(), room, (panel.figures - 8.0, bottom), Font::SMALL)?;
        if panel.before > 0 {
            let bold = Font { bold: true, paint: Paint::INK, ..Font::SMALL };
            canvas.upwards("best kernel", room, (panel.left + panel.best() / 2.0, bottom), bold)?;
        }
        for (j, rung) in panel.shown.iter().enumerate() {
            let x = panel.column(j) + panel.cell / 2.0;
            let name = name(self.run, rung);
            // Said once for the cells below.
            let facts = Facts { rung: (*rung).to_owned(), name: name.clone(), ..Facts::default() };
            let font = Font { paint: Paint::INK, ..Font::SMALL };
            canvas.marked(&facts, || canvas.upwards(&name, room, (x, bottom), font))?;
        }
        Ok(())
    }

    fn measured(&self) -> impl Iterator<Item = &'a Measurement> + '_ {
        let valid = |rung: &str, row: &Shape<'a>| {
            self.run.measurement(rung, row.problem).filter(|m| verdict(self.run, m).is_ok())
        };
        self.rows.iter().flat_map(move |r| self.columns.iter().filter_map(move |rung| valid(rung, r)))
    }

    fn frame(&self, groups: &[Vec<Panel<'a>>]) -> Frame {
        let run = self.run;
        let mut notes = Vec::new();
        for (i, (why, cells)) in self.reasons.iter().enumerate().take(26) {
            let letter = char::from(b'a' + i as u8);
            notes.push(format!("{letter}: {why} ({}).", counted(*cells, "cell")));
        }
        if self.reasons.len() > 26 {
            notes.push("There are more reasons than letters; the table has all.".into());
        }
        let mut without: Vec<(String, Vec<String>)> = Vec::new();
        for rung in &self.empty {
            let why = self.rows.iter().find_map(|r| self.ratio(rung, r).err()).unwrap_or_default();
            match without.iter_mut().find(|w| w.0 == why) {
                Some(w) => w.1.push(name(run, rung)),
                None => without.push((why, vec![name(run, rung)])),
            }
        }
        for (why, mut rungs) in without.into_iter().take(4) {
            rungs.truncate(MAX_ENTRIES);
            notes.push(format!(
                "No column, as without a figure at any shape: {} ({}).",
                listed(&rungs),
                why.trim_end_matches('.')
            ));
        }
        let is_drawn = |rung: &&&str| groups.iter().flatten().any(|panel| panel.shown.contains(rung));
        let columns = self.columns.iter().filter(is_drawn).count();
        if self.columns.len() > columns {
            notes.push(format!("{columns} of {} columns are drawn; the table has all.", self.columns.len()));
        }
        if self.rows.len() > MAX_ENTRIES {
            notes.push(format!("{MAX_ENTRIES} of {} rows are drawn; the table has all.", self.rows.len()));
        }
        let medians = medians(self.measured());
        Frame {
            width: self.options.px(),
            title: self.claim(),
            subtitle: joined([
                format!("{}: shapes", heading(run)),
                device(run),
                self.dtype.label().to_owned(),
                medians,
                l2(run).to_owned(),
            ]),
            description: self.description(),
            notes,
            table: self.table(),
        }
    }

    /// At how many shapes a rung is ahead.
    fn claim(&self) -> String {
        let best: Vec<f64> = self.rows.iter().filter_map(|r| self.best(r)).map(|b| b.1).collect();
        let ahead = best.iter().filter(|ratio| **ratio >= 1.0).count();
        let of = self.dtype.label();
        match (ahead, best.len()) {
            (a, b) if a == b => format!("A kernel is at least as fast as the library at all {b} shapes of {of}"),
            (a, b) => format!("A kernel is at least as fast as the library at {a} of {b} shapes of {of}"),
        }
    }

    fn description(&self) -> String {
        let run = self.run;
        let best: Vec<(&Shape<'_>, &str, f64)> =
            self.rows.iter().filter_map(|r| self.best(r).map(|(rung, ratio)| (r, rung, ratio))).collect();
        let ahead = best.iter().filter(|b| b.2 >= 1.0).count();
        let end = |b: Option<&(&Shape<'_>, &str, f64)>| {
            b.map_or(String::new(), |(r, rung, ratio)| {
                format!("{} at {} ({})", ratio_text(*ratio), r.name, name(run, rung))
            })
        };
        let low = best.iter().min_by(|a, b| a.2.total_cmp(&b.2));
        let high = best.iter().max_by(|a, b| a.2.total_cmp(&b.2));
        format!(
            "Heat map of the fastest library's time over that of {} at {} of {} on {}: the best kernel is at least as fast at \
             {ahead} of them, from {} to {}.",
            counted(self.columns.len(), "rung"),
            counted(self.rows.len(), "shape"),
            self.dtype.label(),
            device(run),
            end(low),
            end(high),
        )
    }

    fn table(&self) -> Table {
        let measure = self.rate.or_rate(self.run);
        let (rate, unit) = measure.in_file();
        let mut table = Table::new([
            "shape",
            "rung",
            "title",
            "time (ms)",
            rate.as_str(),
            "library",
            "library's time (ms)",
            "ratio",
            "best kernel",
            "outcome",
        ]);
        for row in &self.rows {
            let best = self.best(row).map(|b| b.0);
            let (library, library_us) =
                row.library.map_or((String::new(), None), |(m, us)| (name(self.run, &m.rung), Some(us)));
            for rung in self.columns.iter().chain(&self.empty) {
                let m = self.run.measurement(rung, row.problem);
                let us = m.and_then(|m| verdict(self.run, m).ok());
                let digits = |v: Option<f64>, n| v.map(|v| significant(v, n)).unwrap_or_default();
                let ratio = self.ratio(rung, row);
                table.push([
                    row.name.clone(),
                    clean(rung),
                    name(self.run, rung),
                    digits(us.map(|t| t / 1e3), 5),
                    digits(m.zip(us).map(|(m, t)| measure.of(m, t, None) / unit), 4),
                    library.clone(),
                    digits(library_us.map(|t| t / 1e3), 5),
                    digits(ratio.as_ref().ok().copied(), 4),
                    if best == Some(*rung) { "yes".into() } else { String::new() },
                    ratio.err().unwrap_or_else(|| "measured".into()),
                ]);
            }
        }
        table
    }
}

fn draw_legend(canvas: &Canvas<'_>, top: f64) -> Drawn {
    let caption = "time of the fastest library over the rung's; above 1.00 the rung is faster";
    let room = canvas.width() - 2.0 * MARGIN;
    canvas.wrapped(caption, room, 2, (MARGIN, top + 6.0), Font::SMALL)?;
    let narrow = is_narrow(canvas.width());
    let (a_line, first) = if narrow { (BANDS.len() / 2, top + 34.0) } else { (BANDS.len(), top + 18.0) };
    let wide = (room / a_line as f64).min(BAND);
    for (i, band) in BANDS.iter().enumerate() {
        let (left, y) = (MARGIN + (i % a_line) as f64 * wide, first + (i / a_line) as f64 * 22.0);
        let facts = Facts { name: Band::name(i), ..Facts::legend(i.to_string()) };
        canvas.marked(&facts, || {
            canvas.rect((left, left + wide - 1.0), (y, y + 20.0), band.paint())?;
            canvas.text(&Band::name(i), (left + wide / 2.0, y + 10.0), At::Middle, FIGURE)
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::palette::{blended, contrast};

    #[test]
    fn ratios_are_short_and_find_their_band() {
        let check = |ratio: f64, text: &str, band: &str| {
            let number = BANDS.iter().position(|b| b.from == Band::of(ratio).from).unwrap();
            assert_eq!((ratio_text(ratio).as_str(), Band::name(number).as_str()), (text, band));
        };
        check(1.0, "1.00", "0.98–1.02");
        check(0.9962, "0.996", "0.98–1.02");
        check(0.99999, "0.999", "0.98–1.02");
        check(0.979, "0.98", "0.90–0.98");
        check(1.2, "1.20", "≥ 1.20");
        check(12.345, "12.3", "≥ 1.20");
        check(1e9, ">9999", "≥ 1.20");
        check(0.0126, "0.013", "< 0.40");
        check(1e-7, "0.000", "< 0.40");
    }

    #[test]
    fn figures_read_on_every_band() {
        for band in BANDS {
            for (ink, paper) in [((0x1f, 0x23, 0x28), (0xff, 0xff, 0xff)), ((0xe6, 0xe6, 0xe6), (0x16, 0x18, 0x1c))] {
                let paint = blended(band.color.unwrap_or(ink), band.alpha, paper);
                assert!(contrast(ink, paint) >= 4.5, "{} on {paint:?}", band.from);
            }
        }
    }
}
