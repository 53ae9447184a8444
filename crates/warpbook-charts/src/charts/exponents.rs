//! Histograms of the exponents of numbers, compared with the range of a floating-point format.

use crate::draw::text::words::{percent, whole};
use crate::draw::{
    At, BLUE, Canvas, Chart, ChartError, Drawn, Font, Frame, GREY, MARGIN, MarkData, Options, Paint, Stroke, Table,
    VERMILLION, WIDTH, clean,
};
use std::collections::BTreeMap;

/// The range of a floating-point format, by exponents of 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FormatRange<'a> {
    /// Name of the format, such as "fp16".
    pub name: &'a str,
    /// Smallest exponent; smaller numbers are rounded to 0.
    pub least: i32,
    /// Smallest normal exponent; smaller numbers are subnormal and have fewer digits.
    pub normal: i32,
    /// The largest exponent.
    pub largest: i32,
}

/// The exponents of some numbers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ExponentRow {
    /// Name of this set of numbers.
    pub name: String,
    /// Counts of numbers x by exponent e: 2^e <= |x| < 2^(e+1).
    pub counts: BTreeMap<i32, u64>,
    /// Count of zeros.
    pub zeros: u64,
    /// Count of numbers that are infinite or NaN.
    pub not_finite: u64,
}

/// Counts of a row's numbers by the way in which a format represents them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Fate {
    vanish: u64,
    subnormal: u64,
    normal: u64,
    overflow: u64,
}

impl ExponentRow {
    /// Counts the exponents of these numbers.
    #[must_use]
    pub fn from_values(name: impl Into<String>, values: impl IntoIterator<Item = f32>) -> Self {
        let mut row = Self { name: name.into(), ..Self::default() };
        for value in values {
            match value {
                0.0 => row.zeros += 1,
                v if v.is_finite() => *row.counts.entry(exponent(v)).or_default() += 1,
                _ => row.not_finite += 1,
            }
        }
        row
    }

    /// Returns the count of numbers that are finite and not 0.
    #[must_use]
    pub fn counted(&self) -> u64 {
        self.counts.values().sum()
    }

    fn fate(&self, range: &FormatRange<'_>) -> Fate {
        let mut fate = Fate::default();
        for (e, n) in &self.counts {
            *match *e {
                e if e < range.least => &mut fate.vanish,
                e if e < range.normal => &mut fate.subnormal,
                e if e <= range.largest => &mut fate.normal,
                _ => &mut fate.overflow,
            } += n;
        }
        fate
    }
}

/// Returns the exponent of a finite number that is not 0.
fn exponent(value: f32) -> i32 {
    let bits = value.to_bits() & 0x7fff_ffff;
    match bits >> 23 {
        // The first set bit of a subnormal number determines its exponent.
        0 => 31 - bits.leading_zeros() as i32 - 149,
        e => e as i32 - 127,
    }
}

const PLOT: f64 = 92.0;
/// Height of a row's name above its plot.
const NAME: f64 = 24.0;
/// Space below each plot except the last.
const GAP: f64 = 12.0;
const TICKS: f64 = 40.0;
/// Height of the names of the format's ranges, above all plots.
const PARTS: f64 = 20.0;
/// Left edge of the plots, with room for the share to the left of each.
const LEFT: f64 = MARGIN + 42.0;

impl Options {
    /// Draws one histogram for each row, one below the other over the same axis of exponents. Exponents that the format cannot represent exactly are shaded.
    ///
    /// # Errors
    /// Returns [`ChartError::NothingToDraw`] if no row has a number that is finite and not 0.
    pub fn exponents(
        &self,
        title: &str,
        subtitle: &str,
        range: &FormatRange<'_>,
        rows: &[ExponentRow],
    ) -> Result<Chart, ChartError> {
        let ends = rows.iter().flat_map(|r| r.counts.iter().filter(|(_, n)| **n > 0).map(|(e, _)| *e));
        let Some((low, high)) = ends.fold(None, |ends: Option<(i32, i32)>, e| {
            Some(ends.map_or((e, e), |(low, high)| (low.min(e), high.max(e))))
        }) else {
            return Err(ChartError::NothingToDraw("No number is both finite and different from 0.".into()));
        };
        // The picture shows the format's whole range.
        let plot = ExponentPlot { low: low.min(range.least - 4), high: high.max(range.largest + 3), range, rows };
        let height = PARTS + rows.len() as f64 * (NAME + PLOT + GAP) + TICKS;
        let frame = Frame {
            width: WIDTH,
            title: title.to_owned(),
            subtitle: subtitle.to_owned(),
            description: plot.description(),
            notes: Vec::new(),
            table: plot.table(),
        };
        frame.draw(height, |canvas, top| plot.draw(canvas, top))
    }
}

struct ExponentPlot<'a> {
    low: i32,
    high: i32,
    range: &'a FormatRange<'a>,
    rows: &'a [ExponentRow],
}

impl ExponentPlot<'_> {
    /// Returns the left edge of an exponent's bar.
    fn x(&self, e: i32) -> f64 {
        let width = WIDTH - MARGIN - LEFT;
        LEFT + width * f64::from(e - self.low) / f64::from(self.high + 1 - self.low)
    }

    fn largest_share(&self) -> f64 {
        let share = |r: &ExponentRow| r.counts.values().max().map_or(0.0, |n| *n as f64 / r.counted() as f64);
        self.rows.iter().map(share).fold(0.0, f64::max)
    }

    /// Returns the ranges of exponents from the lowest to the highest, with their names; the range without a colour has full precision.
    fn ranges(&self) -> [(i32, i32, String, Option<Paint>); 4] {
        let FormatRange { name, least, normal, largest } = *self.range;
        [
            (self.low, least, format!("0 in {name}"), Some(Paint::faded(VERMILLION, 0.16))),
            (least, normal, "fewer digits".into(), Some(Paint::faded(GREY, 0.2))),
            (normal, largest + 1, format!("all digits of {name}"), None),
            (largest + 1, self.high + 1, "overflow".into(), Some(Paint::faded(VERMILLION, 0.16))),
        ]
    }

    fn draw(&self, canvas: &Canvas<'_>, top: f64) -> Drawn {
        for (from, to, name, _) in self.ranges() {
            let (from, to) = (self.x(from), self.x(to));
            if Font::SMALL.width(&name) <= to - from {
                canvas.text(&name, (f64::midpoint(from, to), top + PARTS / 2.0), At::Middle, Font::SMALL)?;
            } else {
                // The last name is right-aligned at the border, to stay inside the picture.
                canvas.text(&name, (to, top + PARTS / 2.0), At::Right, Font::SMALL)?;
            }
        }
        let most = self.largest_share();
        for (i, row) in self.rows.iter().enumerate() {
            let y = top + PARTS + i as f64 * (NAME + PLOT + GAP);
            canvas.elided(&row.name, WIDTH - 2.0 * MARGIN, (MARGIN, y + NAME / 2.0), At::Left, Font::HEADING)?;
            self.draw_row(canvas, row, (y + NAME, y + NAME + PLOT), most)?;
        }
        let bottom = top + PARTS + self.rows.len() as f64 * (NAME + PLOT + GAP) - GAP;
        for e in (self.low..=self.high).filter(|e| e % 8 == 0) {
            let x = self.x(e);
            canvas.line(&[(x, bottom), (x, bottom + 4.0)], Stroke::new(Paint::MUTED, 1.0))?;
            canvas.text(&format!("2^{e}"), (x, bottom + 14.0), At::Middle, Font::SMALL)?;
        }
        let middle = f64::midpoint(LEFT, WIDTH - MARGIN);
        canvas.text("magnitude, doubling from each bar to the next", (middle, bottom + 32.0), At::Middle, Font::SMALL)
    }

    fn draw_row(&self, canvas: &Canvas<'_>, row: &ExponentRow, (top, bottom): (f64, f64), most: f64) -> Drawn {
        for (from, to, _, paint) in self.ranges() {
            if let Some(paint) = paint {
                canvas.rect((self.x(from), self.x(to)), (top, bottom), paint)?;
            }
        }
        canvas.text(&percent(most), (LEFT - 5.0, top + 6.0), At::Right, Font::SMALL)?;
        canvas.line(&[(LEFT, bottom), (WIDTH - MARGIN, bottom)], Stroke::new(Paint::MUTED, 1.0))?;
        let all = row.counted() as f64;
        for (e, n) in row.counts.iter().filter(|(_, n)| **n > 0) {
            let share = *n as f64 / all;
            let data = MarkData { name: format!("2^{e} to 2^{}", e + 1), value: percent(share), ..MarkData::default() };
            let lost = *e < self.range.least || *e > self.range.largest;
            let color = if lost { VERMILLION } else { BLUE };
            // The shortest bar is a hairline.
            let height = (share / most * (bottom - top)).max(0.6);
            canvas.marked(&data, || {
                canvas.rect((self.x(*e), self.x(e + 1) - 1.0), (bottom - height, bottom), Paint::solid(color))
            })?;
        }
        Ok(())
    }

    fn description(&self) -> String {
        let name = self.range.name;
        let row = |r: &ExponentRow| {
            let (f, all) = (r.fate(self.range), r.counted().max(1) as f64);
            let share = |n: u64| percent(n as f64 / all);
            format!(
                "of {} that are not 0, {} vanish, {} lose digits and {} overflow",
                clean(&r.name),
                share(f.vanish),
                share(f.subnormal),
                share(f.overflow)
            )
        };
        format!("Exponents against the range of {name}: {}.", self.rows.iter().map(row).collect::<Vec<_>>().join("; "))
    }

    fn table(&self) -> Table {
        let headers =
            ["numbers", "0 already", "vanish", "fewer digits", "all digits", "overflow", "smallest", "largest"];
        let mut table = Table::new(headers);
        for r in self.rows {
            let f = r.fate(self.range);
            let end = |e: Option<&i32>| e.map_or(String::new(), |e| format!("2^{e}"));
            table.push([
                r.name.clone(),
                whole(r.zeros as f64),
                whole(f.vanish as f64),
                whole(f.subnormal as f64),
                whole(f.normal as f64),
                whole((f.overflow + r.not_finite) as f64),
                end(r.counts.keys().next()),
                end(r.counts.keys().next_back()),
            ]);
        }
        table
    }
}
