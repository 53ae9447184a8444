//! A comparison as a chart: a row for each rung, and a marker for each record at its speed-up over the first record.

use super::{ComparedCell, ComparedRow, Comparison, Verdict, devices_differ};
use crate::draw::text::words::{counted, listed, percent, plain, time, times};
use crate::draw::{
    At, Axis, Canvas, Chart, ChartError, Drawn, Font, Frame, MARGIN, MARKERS, MAX_ENTRIES, MarkData, Options, Paint,
    Stroke, WIDTH, is_narrow,
};
use crate::record::{RunnerKind, THRESHOLD, debug_note, devices, heading, joined, l2, label, medians, threshold};
use warpbook_record::Run;

/// Horizontal position where the rows' names end and the plot begins.
const LEFT: f64 = 200.0;
/// Horizontal position where the plot ends and the figures begin.
const RIGHT: f64 = 530.0;
const LEGEND_LINE: f64 = 20.0;
const AXIS: f64 = 42.0;
/// The axis is logarithmic if the largest value is at least this many times the smallest.
const LOG_FROM: f64 = 4.0;

impl Options {
    /// Draws the rungs of one problem as ratios to the first record. Comparable rungs come first; the others follow
    /// with the reason or, if `anyway`, with their figures. If the comparison has several problems, the first record's
    /// main one is drawn.
    ///
    /// # Errors
    /// Returns [`ChartError::NothingToDraw`] if no rung has a figure in two records.
    pub fn comparison(&self, of: &Comparison<'_>, anyway: bool) -> Result<Chart, ChartError> {
        let width = self.px();
        let several = of.problems.len() > 1;
        let main = of.runs[0].main_problem().filter(|p| of.problems.iter().any(|row| row[0] == Some(*p)));
        match main.or(of.problems.first().and_then(|p| p[0])).filter(|_| several) {
            Some(problem) => Drawing::new(&of.at(problem), width, anyway)?.draw(),
            None => Drawing::new(of, width, anyway)?.draw(),
        }
    }
}

struct Drawing<'c, 'a> {
    width: f64,
    of: &'c Comparison<'a>,
    anyway: bool,
    rows: Vec<&'c ComparedRow<'a>>,
    /// Number of rows that are not drawn.
    left_out: usize,
}

impl<'c, 'a> Drawing<'c, 'a> {
    fn new(of: &'c Comparison<'a>, width: f64, anyway: bool) -> Result<Self, ChartError> {
        let is_shown = |r: &&ComparedRow<'_>| r.cells.iter().any(|c| c.ratio.is_some());
        let mut rows: Vec<&ComparedRow<'a>> = of.rows.iter().filter(is_shown).collect();
        if rows.is_empty() {
            let what = of.problems.first().and_then(|p| p[0]).map_or_else(|| "this work".into(), label);
            let why = format!("No rung has a valid measurement of {what} in the first record and in another.");
            return Err(ChartError::NothingToDraw(why));
        }
        rows.sort_by_key(|r| !r.is_common());
        let left_out = rows.len().saturating_sub(MAX_ENTRIES);
        rows.truncate(MAX_ENTRIES);
        Ok(Self { width, of, anyway, rows, left_out })
    }

    /// Returns true if a cell's figure is drawn.
    fn is_drawn(&self, cell: &ComparedCell<'_>) -> bool {
        cell.ratio.is_some() && (self.anyway || cell.verdict != Some(Verdict::NotComparable))
    }

    fn drawn(&self, row: &'c ComparedRow<'a>) -> Vec<(usize, &'c ComparedCell<'a>)> {
        row.cells.iter().enumerate().filter(|(_, c)| self.is_drawn(c)).collect()
    }

    /// Returns the height of a row, in which markers are stacked.
    fn height(&self, row: &'c ComparedRow<'a>) -> f64 {
        let markers = self.drawn(row).len() as f64;
        (markers * 5.0 + 14.0).max(24.0) + self.name_line()
    }

    /// Returns the height of the name's line above the markers in a narrow chart.
    fn name_line(&self) -> f64 {
        if is_narrow(self.width) { 18.0 } else { 0.0 }
    }

    /// Returns the left and right ends of the plot.
    fn ends(&self) -> (f64, f64) {
        if is_narrow(self.width) {
            (MARGIN + 8.0, self.width - MARGIN - 8.0)
        } else {
            (LEFT, self.width - (WIDTH - RIGHT))
        }
    }

    fn axis(&self) -> Axis {
        let ratios = self.rows.iter().flat_map(|r| self.drawn(r)).filter_map(|(_, c)| c.ratio);
        let mut ends = vec![1.0 / (1.0 + THRESHOLD), 1.0 + THRESHOLD];
        // An interval from a few scattered samples may be far wider than the drawn values, so it is cut.
        ends.extend(ratios.flat_map(|r| [r.value, r.low.max(r.value / 1.5), r.high.min(r.value * 1.5)]));
        let (low, high) = ends.iter().fold((f64::MAX, 0.0), |(a, b): (f64, f64), v| (a.min(*v), b.max(*v)));
        let axis = if high > LOG_FROM * low { Axis::log(ends, 0.04) } else { Axis::around(ends) };
        axis.with_ticks(5)
    }

    fn draw(self) -> Result<Chart, ChartError> {
        let axis = self.axis();
        let legend = self.legend_lines();
        let top_of_rows = legend.len() as f64 * LEGEND_LINE + 22.0;
        let height = top_of_rows + self.rows.iter().map(|r| self.height(r)).sum::<f64>() + AXIS;
        self.frame().draw(height, |canvas, top| {
            self.draw_legend(canvas, &legend, top)?;
            self.draw_heads(canvas, top + top_of_rows - 11.0)?;
            let first = top + top_of_rows;
            let bottom = top + height - AXIS;
            self.draw_axis(canvas, &axis, first, bottom)?;
            let mut y = first;
            for row in &self.rows {
                let height = self.height(row);
                self.draw_row(canvas, row, &axis, (y, height))?;
                y += height;
            }
            Ok(())
        })
    }

    fn draw_heads(&self, canvas: &Canvas<'_>, y: f64) -> Drawn {
        let text = if self.of.runs.len() == 2 {
            let shares = devices_differ(&self.of.runs);
            if shares { "time, ratio, % of own limit" } else { "time, and the ratio" }.to_owned()
        } else {
            format!("time: {}", self.of.labels[0])
        };
        if is_narrow(self.width) {
            return canvas.elided(&text, self.width / 2.0, (self.width - MARGIN, y), At::Right, Font::SMALL);
        }
        let left = self.ends().1 + 10.0;
        canvas.elided(&text, self.width - MARGIN - left, (left, y), At::Left, Font::SMALL)
    }

    fn draw_axis(&self, canvas: &Canvas<'_>, axis: &Axis, top: f64, bottom: f64) -> Drawn {
        let (left, right) = self.ends();
        let x = |v: f64| axis.position(v, left, right);
        canvas.rect((x(1.0 / (1.0 + THRESHOLD)), x(1.0 + THRESHOLD)), (top, bottom), Paint::FAINT)?;
        for t in &axis.ticks {
            canvas.line(&[(x(*t), top), (x(*t), bottom + 4.0)], Stroke::new(Paint::FAINT, 1.0))?;
            canvas.text(&format!("{}×", plain(*t)), (x(*t), bottom + 13.0), At::Middle, Font::SMALL)?;
        }
        canvas.line(&[(x(1.0), top), (x(1.0), bottom)], Stroke::new(Paint::MUTED, 1.0))?;
        let scale = if axis.is_log() { "; logarithmic scale" } else { "" };
        let caption = format!("times as fast as {}, further right is faster{scale}", self.of.labels[0]);
        canvas.elided(&caption, self.width - MARGIN - left, (left, bottom + 31.0), At::Left, Font::SMALL)
    }

    fn draw_row(&self, canvas: &Canvas<'_>, row: &'c ComparedRow<'a>, axis: &Axis, (y, height): (f64, f64)) -> Drawn {
        let narrow = is_narrow(self.width);
        let (left, right) = self.ends();
        let name_line = self.name_line();
        let (height, middle) = (height - name_line, y + name_line + (height - name_line) / 2.0);
        if narrow {
            canvas.elided(&row.title, self.width * 0.55, (MARGIN, y + 11.0), At::Left, Font::BODY)?;
        } else {
            canvas.elided(&row.title, left - MARGIN - 12.0, (left - 12.0, middle), At::Right, Font::BODY)?;
        }
        let color = RunnerKind::of_rung(self.of.runs[0], row.rung).color();
        let drawn = self.drawn(row);
        let step = if drawn.len() > 1 { (height - 14.0) / (drawn.len() - 1) as f64 } else { 0.0 };
        let first = middle - step * (drawn.len().saturating_sub(1)) as f64 / 2.0;
        for (i, (record, cell)) in drawn.iter().enumerate() {
            let Some(ratio) = cell.ratio else { continue };
            let y = first + step * i as f64;
            let x = |v: f64| axis.position(v, left, right);
            let shown = format!("{} · {}", cell.us.map(time).unwrap_or_default(), times(ratio.value));
            let data = cell
                .measurement
                .map(|m| MarkData { series: self.of.labels[*record].clone(), ..MarkData::measured(m, shown) });
            if x(ratio.high) - x(ratio.low) >= 2.0 {
                let ends = [(x(ratio.low), y), (x(ratio.high), y)];
                canvas.line(&ends, Stroke::new(Paint::faded(color, 0.7), 1.6))?;
            }
            let marker = (MARKERS[record % MARKERS.len()], (x(ratio.value), y), Paint::solid(color));
            canvas.marked(&data.unwrap_or_default(), || canvas.marker(marker.0, marker.1, marker.2))?;
        }
        let (text, font) = self.figure(row, &drawn);
        if narrow && !drawn.is_empty() {
            let room = self.width * 0.45 - 2.0 * MARGIN;
            return canvas.elided(&text, room, (self.width - MARGIN, y + 11.0), At::Right, font);
        }
        let at = if drawn.is_empty() { left + 8.0 } else { right + 10.0 };
        canvas.elided(&text, self.width - MARGIN - at, (at, middle), At::Left, font)
    }

    /// Returns the text at the end of a row, or the text that replaces its markers.
    fn figure(&self, row: &ComparedRow<'_>, drawn: &[(usize, &ComparedCell<'_>)]) -> (String, Font) {
        let first = row.cells[0].us.map(time).unwrap_or_default();
        match drawn {
            [] => {
                let why = row.cells.iter().find(|c| c.verdict == Some(Verdict::NotComparable)).map(|c| c.why.as_str());
                (format!("not comparable: {}", why.unwrap_or_default()), Font::NOTE)
            }
            [(_, cell)] if self.of.runs.len() == 2 => {
                let moved = matches!(cell.verdict, Some(Verdict::Improved | Verdict::Worse));
                let ratio = cell.ratio.map(|r| times(r.value)).unwrap_or_default();
                let shares = row.cells[0].share.zip(cell.share);
                let shares = shares.map_or(String::new(), |(a, b)| format!(" · {} → {}", percent(a), percent(b)));
                let text = format!("{} · {ratio}{shares}", cell.us.map(time).unwrap_or_default());
                (text, if moved { Font { bold: true, ..Font::NOTE } } else { Font::NOTE })
            }
            _ => (first, Font::NOTE),
        }
    }

    /// Breaks the legend of records into lines, with positions.
    fn legend_lines(&self) -> Vec<Vec<(usize, String, f64)>> {
        let mut lines: Vec<Vec<(usize, String, f64)>> = Vec::new();
        let mut x = f64::INFINITY;
        for (i, label) in self.of.labels.iter().enumerate() {
            let label = if i == 0 { format!("{label} (1×)") } else { label.clone() };
            let width = 16.0 + Font::NOTE.width(&label).min(300.0) + 18.0;
            if x + width > self.width - MARGIN {
                lines.push(Vec::new());
                x = MARGIN;
            }
            if let Some(line) = lines.last_mut() {
                line.push((i, label, x));
            }
            x += width;
        }
        lines
    }

    fn draw_legend(&self, canvas: &Canvas<'_>, lines: &[Vec<(usize, String, f64)>], top: f64) -> Drawn {
        for (n, line) in lines.iter().enumerate() {
            let y = top + n as f64 * LEGEND_LINE + 7.0;
            for (i, label, x) in line {
                if *i == 0 {
                    canvas.line(&[(x + 5.0, y - 6.0), (x + 5.0, y + 6.0)], Stroke::new(Paint::MUTED, 1.4))?;
                } else {
                    canvas.marker(MARKERS[i % MARKERS.len()], (x + 5.0, y), Paint::MUTED)?;
                }
                canvas.elided(label, 300.0, (x + 16.0, y), At::Left, Font::NOTE)?;
            }
        }
        Ok(())
    }

    fn frame(&self) -> Frame {
        let comparison = self.of;
        let measured = || {
            let cells = self.rows.iter().flat_map(|r| r.cells.iter().zip(&comparison.runs));
            cells.filter_map(|(c, run)| Some((*run, c.measurement.filter(|_| c.us.is_some())?)))
        };
        let devices = devices(&comparison.runs);
        let label = comparison.problems.first().and_then(|p| p[0]).map(label).unwrap_or_default();
        let medians = medians(measured().map(|m| m.1));
        let normalised = if comparison.is_normalised { "drift taken out" } else { "" };
        let sentences: Vec<String> = (1..comparison.runs.len()).map(|i| comparison.sentence(i)).collect();
        let topic = format!("{}: {} compared", heading(comparison.runs[0]), counted(comparison.runs.len(), "record"));
        let (title, topic) = match comparison.runs.len() {
            2 => (comparison.finding(1), topic),
            _ => match comparison.finding_of_many() {
                Some(finding) => (finding, topic),
                None => (topic, String::new()),
            },
        };
        Frame {
            width: self.width,
            title,
            subtitle: joined([topic.as_str(), &devices, &label, &medians, l2(comparison.runs[0]), normalised]),
            description: format!(
                "Ratios of the times of the same rungs on {devices}, {label}. {}",
                sentences.join(" ")
            ),
            notes: self.notes(&devices, measured()),
            table: comparison.table(),
        }
    }

    fn notes(
        &self,
        devices: &str,
        measured: impl Iterator<Item = (&'a Run, &'a warpbook_record::Measurement)>,
    ) -> Vec<String> {
        let comparison = self.of;
        let mut notes = Vec::new();
        if comparison.runs.len() == 2 {
            notes.push(comparison.sentence(1));
        }
        notes.push(format!("Grey: within noise, ± {} around 1×. Lines: 95 % intervals from the samples.", threshold()));
        if devices_differ(&comparison.runs) {
            notes.push(format!(
                "The records are of different devices: {devices}. Percentages are relative to each device's own limit."
            ));
        }
        let alone: Vec<String> = comparison
            .rows
            .iter()
            .filter(|r| r.cells.iter().all(|c| c.ratio.is_none()))
            .filter_map(only_in(comparison))
            .collect();
        if !alone.is_empty() {
            let more = alone.len().saturating_sub(8);
            let mut shown: Vec<String> = alone.into_iter().take(8).collect();
            shown.extend((more > 0).then(|| format!("{more} more")));
            notes.push(format!("With a figure in one record only: {}.", listed(&shown)));
        }
        if self.left_out > 0 {
            notes.push(format!("{} more rungs are in the table.", self.left_out));
        }
        notes.extend(debug_note(measured));
        notes
    }
}

/// Returns a function that formats a rung as "Naive (only in B)", or returns `None` if no record has a figure of it.
fn only_in<'c>(of: &'c Comparison<'_>) -> impl Fn(&'c ComparedRow<'_>) -> Option<String> {
    move |row| {
        let with = row.cells.iter().zip(&of.labels).filter(|(c, _)| c.us.is_some()).map(|(_, l)| l.clone());
        let with: Vec<String> = with.collect();
        // With more than two records, the table shows which of them have the rung.
        let only = if of.runs.len() == 2 { format!(" (only in {})", listed(&with)) } else { String::new() };
        (!with.is_empty()).then(|| format!("{}{only}", row.title))
    }
}
