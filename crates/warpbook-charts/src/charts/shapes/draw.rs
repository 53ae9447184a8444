//! Drawing of the heat map, with its texts and its table.

use super::bands::{BANDS, Band, FIGURE, figure, ratio_text};
use super::{CAPTION, CELL, GAP, HeatMap, NAME_LINE, Panel, RatioOrReason, Shape};
use crate::draw::text::words::{counted, listed, significant};
use crate::draw::{
    At, Canvas, Chart, ChartError, Drawn, Font, Frame, MARGIN, MAX_ENTRIES, MarkData, Paint, Stroke, Table, clean,
    is_narrow,
};
use crate::record::{device, heading, joined, l2, medians, name, quoted, verdict};
use warpbook_record::Measurement;

const BAND: f64 = 80.0;
/// Height of the legend: the bands of colour and the line above them.
const LEGEND: f64 = 52.0;

impl<'a> HeatMap<'a> {
    pub(super) fn draw(mut self) -> Result<Chart, ChartError> {
        let (px, narrow) = (self.options.px(), self.is_narrow());
        let groups = self.groups().into_iter().map(|rows| self.panel(rows)).enumerate();
        let groups: Vec<Vec<Panel<'a>>> =
            groups.map(|(i, panel)| if i == 0 || narrow { vec![panel] } else { panel.abreast(px) }).collect();
        let legend = LEGEND + if narrow { 22.0 + 16.0 } else { 0.0 };
        // Letters for reasons are assigned in reading order, so the cells are made before the remarks.
        let cells: Vec<Vec<Vec<Vec<RatioOrReason>>>> =
            groups.iter().map(|panels| panels.iter().map(|panel| self.cells(panel)).collect()).collect();
        let line = CELL + if narrow { NAME_LINE } else { 0.0 };
        // The first part of a group has the most rows.
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

    /// Returns the contents of a panel's cells, row by row.
    fn cells(&mut self, panel: &Panel<'a>) -> Vec<Vec<RatioOrReason>> {
        let of_row = |i: &usize| {
            let ratios: Vec<_> = panel.shown.iter().map(|rung| self.ratio(rung, &self.rows[*i])).collect();
            ratios.into_iter().map(|r| r.map_err(|why| (self.letter(&why), why))).collect()
        };
        panel.rows.iter().map(of_row).collect()
    }

    fn draw_panel(&self, canvas: &Canvas<'_>, panel: &Panel<'a>, cells: &[Vec<RatioOrReason>], top: f64) -> Drawn {
        let above = if self.is_narrow() { NAME_LINE } else { 0.0 };
        let first = top + panel.header;
        self.draw_headers(canvas, panel, first - 5.0)?;
        for (i, (row, cells)) in panel.rows.iter().map(|i| &self.rows[*i]).zip(cells).enumerate() {
            let best = self.best(row).filter(|_| panel.before > 0);
            let drawn = panel.shown.iter().zip(cells).filter(|(_, c)| c.is_ok()).map(|(rung, _)| *rung);
            let samples = self.samples(row, drawn.chain(best.map(|b| b.0)));
            canvas.marked(&MarkData { samples, ..MarkData::of_problem(row.problem) }, || {
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
                    canvas.marked(&self.data(rung, row, (ratio, &shown), samples), || {
                        canvas.rect(cell(panel.left, panel.best()), whole, Band::containing(ratio).paint())?;
                        canvas.titled(&shown, &name(self.run, rung), at, At::Middle, bold)
                    })?;
                }
                for (j, content) in cells.iter().enumerate() {
                    let left = panel.column(j);
                    let at = (left + panel.cell / 2.0, middle);
                    match content {
                        Ok(ratio) => {
                            let shown = figure(*ratio, panel.cell, FIGURE);
                            canvas.marked(&self.data(panel.shown[j], row, (*ratio, &shown), samples), || {
                                canvas.rect(cell(left, panel.cell), whole, Band::containing(*ratio).paint())?;
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
            // The group carries the data that its cells share.
            let data = MarkData { rung: (*rung).to_owned(), name: name.clone(), ..MarkData::default() };
            let font = Font { paint: Paint::INK, ..Font::SMALL };
            canvas.marked(&data, || canvas.upwards(&name, room, (x, bottom), font))?;
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
                "Left out, without a figure at any shape: {} ({}).",
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

    /// Returns the finding: how many shapes a rung wins.
    fn claim(&self) -> String {
        let best: Vec<f64> = self.rows.iter().filter_map(|r| self.best(r)).map(|b| b.1).collect();
        let ahead = best.iter().filter(|ratio| **ratio >= 1.0).count();
        let dtype = self.dtype.label();
        match (ahead, best.len()) {
            (a, b) if a == b => format!("Our best kernel matches or beats the library at all {b} {dtype} shapes"),
            (a, b) => format!("Our best kernel matches or beats the library at {a} of {b} {dtype} shapes"),
        }
    }

    fn description(&self) -> String {
        let run = self.run;
        let best: Vec<(&Shape<'_>, &str, f64)> =
            self.rows.iter().filter_map(|r| self.best(r).map(|(rung, ratio)| (r, rung, ratio))).collect();
        let ahead = best.iter().filter(|b| b.2 >= 1.0).count();
        let end = |b: Option<&(&Shape<'_>, &str, f64)>| {
            b.map_or(String::new(), |(r, rung, ratio)| {
                format!("{} at {} ({})", ratio_text(*ratio), r.name, quoted(run, rung))
            })
        };
        let low = best.iter().min_by(|a, b| a.2.total_cmp(&b.2));
        let high = best.iter().max_by(|a, b| a.2.total_cmp(&b.2));
        format!(
            "Heat map of the fastest library's time divided by the time of {} at {} of {} on {}: the best kernel is at least as fast at \
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
                    digits(m.zip(us).map(|(m, t)| measure.value_of(m, t, None) / unit), 4),
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
        let data = MarkData { name: Band::name(i), ..MarkData::legend(i.to_string()) };
        canvas.marked(&data, || {
            canvas.rect((left, left + wide - 1.0), (y, y + 20.0), band.paint())?;
            canvas.text(&Band::name(i), (left + wide / 2.0, y + 10.0), At::Middle, FIGURE)
        })?;
    }
    Ok(())
}
