//! The ranking of a class at a task, as dots.

use super::{BoardTask, COLUMNS};
use crate::draw::text::words::{time, time_tick, times};
use crate::draw::{
    At, Axis, BLUE, Canvas, Chart, ChartError, Drawn, Font, Frame, MARGIN, MAX_ENTRIES, MarkData, Marker, Options,
    Paint, Stroke, Table, WIDTH, is_narrow,
};
use crate::record::{joined, l2_state, label, median_of};
use warpbook_record::Measurement;

const ROW: f64 = 20.0;
/// Height reserved above the rows for the legend of the band and the line.
const KEY: f64 = 22.0;
/// Height of the label of a published record's line.
const KEY_LINE: f64 = 16.0;
const MOST_LINES: usize = 3;
const AXIS: f64 = 40.0;
const NAMES: f64 = 170.0;
/// Width reserved for a label such as "432 µs · 1.00×".
const FIGURES: f64 = 118.0;
/// The axis is logarithmic if the slowest time is at least this many times the fastest.
const WIDE: f64 = 4.0;

impl Options {
    /// Draws each person's best time at a task of a [`Board`](crate::Board) as a dot, the fastest first, with the median and the middle half of all
    /// times.
    ///
    /// # Errors
    /// Returns [`ChartError::NothingToDraw`] if nobody has a valid figure.
    pub fn ranking(&self, task: &BoardTask<'_>) -> Result<Chart, ChartError> {
        let rows: Vec<PersonDot<'_>> =
            task.ranked().map(|(e, m, us)| PersonDot { person: &e.person, rung: &e.rung, m, us }).collect();
        let Some(first) = rows.first() else {
            return Err(ChartError::NothingToDraw(format!("Nobody has a checked figure for {}.", task.name())));
        };
        let times: Vec<f64> = rows.iter().map(|d| d.us).collect();
        let lines: Vec<&(String, f64)> = task.published.iter().take(MOST_LINES).collect();
        let all = || times.iter().copied().chain(lines.iter().map(|l| l.1));
        let (least, last) = (all().fold(first.us, f64::min), all().fold(first.us, f64::max));
        let axis = if last > WIDE * least { Axis::log(all(), 0.05) } else { Axis::around(all()) };
        let spread = Spread::of_sorted(&times);
        let shown = &rows[..rows.len().min(MAX_ENTRIES)];
        let mut layout = BoardLayout::for_width(self.px());
        layout.key += lines.len() as f64 * KEY_LINE;
        let height = layout.key + shown.len() as f64 * layout.row + AXIS;
        let frame = Frame { width: layout.width, ..task.frame(&rows, &spread) };
        frame.draw(height, |canvas, top| draw(canvas, top, (shown, &lines), &axis, &spread, &layout))
    }
}

impl BoardTask<'_> {
    fn frame(&self, rows: &[PersonDot<'_>], spread: &Spread) -> Frame {
        let first = &rows[0];
        let counts = rows.iter().map(|d| d.m.samples_total.max(d.m.samples_us.len() as u64));
        let people = if rows.len() == 1 { "1 person".to_owned() } else { format!("{} people", rows.len()) };
        let mut notes = Vec::new();
        if rows.len() > MAX_ENTRIES {
            notes.push(format!("{MAX_ENTRIES} of {} are drawn; the table has all.", rows.len()));
        }
        let without = self.entries.len() - rows.len();
        if without > 0 {
            notes.push(format!("{} without a checked figure; the table says why.", counted_people(without)));
        }
        let mut table = Table::new(COLUMNS);
        self.rows().into_iter().for_each(|row| table.push(row));
        Frame {
            width: WIDTH,
            title: format!("{} is the fastest of {people}: {}", first.person, time(first.us)),
            subtitle: joined([
                label(self.problem),
                self.device.clone(),
                median_of(counts),
                l2_state(self.run).to_owned(),
            ]),
            description: format!(
                "{} is the fastest of {people} with {} by {}; the median of all is {}, the middle half lies between {} and {}. {}",
                first.person,
                time(first.us),
                first.rung,
                time(spread.median),
                time(spread.low),
                time(spread.high),
                if without > 0 {
                    format!("{} without a checked figure.", counted_people(without))
                } else {
                    String::new()
                }
            ),
            notes,
            table,
        }
    }
}

fn counted_people(n: usize) -> String {
    if n == 1 { "1 person is".into() } else { format!("{n} people are") }
}

/// Positions of the rows and their parts. On a phone, names and figures are above each row's line.
struct BoardLayout {
    width: f64,
    narrow: bool,
    left: f64,
    right: f64,
    row: f64,
    key: f64,
}

impl BoardLayout {
    fn for_width(width: f64) -> Self {
        let narrow = is_narrow(width);
        let (left, right) = if narrow { (8.0, 8.0) } else { (NAMES, FIGURES) };
        let (row, key) = if narrow { (1.7 * ROW, 2.0 * KEY) } else { (ROW, KEY) };
        Self { width, narrow, left: MARGIN + left, right: width - MARGIN - right, row, key }
    }
}

/// The dot for a person's best time.
struct PersonDot<'a> {
    person: &'a str,
    rung: &'a str,
    m: &'a Measurement,
    us: f64,
}

/// Median and quartiles of a sorted list of times, interpolated between neighbours (type 7 of Hyndman and Fan).
struct Spread {
    low: f64,
    median: f64,
    high: f64,
}

impl Spread {
    fn of_sorted(sorted: &[f64]) -> Self {
        let at = |share: f64| {
            let place = share * (sorted.len() - 1) as f64;
            let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
            below + (above - below) * place.fract()
        };
        Self { low: at(0.25), median: at(0.5), high: at(0.75) }
    }
}

fn draw(
    canvas: &Canvas<'_>,
    top: f64,
    (rows, lines): (&[PersonDot<'_>], &[&(String, f64)]),
    axis: &Axis,
    all: &Spread,
    layout: &BoardLayout,
) -> Drawn {
    let &BoardLayout { width, narrow, left, right, row, key } = layout;
    let x = |us: f64| axis.position(us, left, right);
    let (first, bottom) = (top + key, top + key + rows.len() as f64 * row);
    for tick in &axis.ticks {
        canvas.line(&[(x(*tick), first), (x(*tick), bottom)], Stroke::new(Paint::FAINT, 1.0))?;
        canvas.text(&time_tick(*tick), (x(*tick), bottom + 10.0), At::Middle, Font::SMALL)?;
    }
    let way = if axis.is_log() { "median time (logarithmic)" } else { "median time" };
    canvas.text(
        &format!("{way}, shorter is better"),
        (f64::midpoint(left, right), bottom + 28.0),
        At::Middle,
        Font::SMALL,
    )?;
    for (i, (name, us)) in lines.iter().enumerate() {
        let text = format!("{name}, {}", time(*us));
        let y = first - (lines.len() - i) as f64 * KEY_LINE + KEY_LINE / 2.0 - 2.0;
        let stroke = Stroke::dashed(Paint::INK, 1.2, i + 1);
        canvas
            .marked(&MarkData::reference(&text), || canvas.line(&[(x(*us), first - 2.0), (x(*us), bottom)], stroke))?;
        canvas.line(&[(MARGIN, y), (MARGIN + 22.0, y)], stroke)?;
        canvas.elided(&text, width - 2.0 * MARGIN - 28.0, (MARGIN + 28.0, y), At::Left, Font::SMALL)?;
    }
    if rows.len() > 2 {
        let band = MarkData {
            name: "the middle half".into(),
            value: format!("{} to {}", time(all.low), time(all.high)),
            ..MarkData::default()
        };
        canvas.marked(&band, || canvas.rect((x(all.low), x(all.high)), (first, bottom), Paint::faded(BLUE, 0.12)))?;
        let middle = MarkData { name: "the median of all".into(), value: time(all.median), ..MarkData::default() };
        let line = [(x(all.median), first - 4.0), (x(all.median), bottom)];
        canvas.marked(&middle, || canvas.line(&line, Stroke::dashed(Paint::solid(BLUE), 1.5, 1)))?;
        let text = format!("median of all {}, the middle half shaded", time(all.median));
        if narrow {
            canvas.wrapped(&text, width - 2.0 * MARGIN, 2, (MARGIN, top + 8.0), Font::SMALL)?;
        } else {
            let half = Font::SMALL.width(&text) / 2.0;
            let at = x(all.median).clamp(MARGIN + half, width - MARGIN - half);
            canvas.text(&text, (at, top + 8.0), At::Middle, Font::SMALL)?;
        }
    }
    let best = rows[0].us;
    let ink = Font { paint: Paint::INK, ..Font::NOTE };
    for (i, dot) in rows.iter().enumerate() {
        let middle = first + (i as f64 + 0.5) * row;
        let (words, y) = if narrow { (middle - 0.4 * ROW, middle + 0.45 * ROW) } else { (middle, middle) };
        canvas.elided(
            &format!("{}. {}", i + 1, dot.person),
            if narrow { width - 2.0 * MARGIN - FIGURES } else { NAMES - 14.0 },
            (MARGIN, words),
            At::Left,
            ink,
        )?;
        canvas.line(&[(left, y), (right, y)], Stroke::new(Paint::FAINT, 1.0))?;
        let data = MarkData {
            rung: String::new(),
            problem: String::new(),
            name: format!("{}, {}", dot.person, dot.rung),
            ..MarkData::measured(dot.m, time(dot.us))
        };
        canvas.marked(&data, || canvas.marker(Marker::Disc, (x(dot.us), y), Paint::solid(BLUE)))?;
        let figure = if i == 0 { time(dot.us) } else { format!("{} · {}", time(dot.us), times(dot.us / best)) };
        canvas.text(&figure, (width - MARGIN, words), At::Right, Font::NOTE)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_lie_between_their_neighbours() {
        let quartiles = |times: &[f64]| {
            let s = Spread::of_sorted(times);
            (s.low, s.median, s.high)
        };
        assert_eq!(quartiles(&[3.0]), (3.0, 3.0, 3.0));
        assert_eq!(quartiles(&[1.0, 2.0, 3.0, 4.0, 5.0]), (2.0, 3.0, 4.0));
        // The expected values come from numpy.percentile([1, 2, 4, 8], [25, 50, 75]).
        assert_eq!(quartiles(&[1.0, 2.0, 4.0, 8.0]), (1.75, 3.0, 5.0));
    }
}
