//! Lines over two axes, named at their ends or below a narrow plot.

use crate::draw::canvas::{At, Canvas, Drawn, Font, MARGIN, Marker, Paint, Stroke};
use crate::draw::chart::{Chart, ChartError};
use crate::draw::frame::Frame;
use crate::draw::mark_data::{MarkData, shared_problem};
use crate::draw::options::is_narrow;
use crate::draw::plot::labels::{Area, Room, Xy};
use crate::draw::plot::ticks::{Axis, plot_words};
use crate::draw::text;
use crate::draw::text::words::{plain, significant};

pub(crate) struct Series {
    /// Lines of the label: the first `names` lines are names, and the others are remarks.
    pub(crate) label: Vec<String>,
    pub(crate) names: usize,
    pub(crate) points: Vec<(f64, f64)>,
    pub(crate) stroke: Stroke,
    pub(crate) marker: Option<Marker>,
    /// True if the points are not joined.
    pub(crate) scattered: bool,
    /// Indices of points that are not joined to their neighbours.
    pub(crate) apart: Vec<usize>,
    /// True if the line is shown for comparison only, without a name.
    pub(crate) is_rest: bool,
    /// Reason why the line ends early.
    pub(crate) broken: Option<String>,
    /// Data of the whole line: the rung, and the problem if there is one.
    pub(crate) data: MarkData,
    /// Data of each point; if empty, the values are written as the axes format them.
    pub(crate) each: Vec<MarkData>,
}

impl Series {
    /// Returns the names of the series, joined by commas, as its legend key.
    fn key(&self) -> String {
        self.label[..self.names.min(self.label.len())].join(", ")
    }
}

/// A thin dotted line that is drawn below the other lines and has its name along it.
pub(crate) struct Guide {
    pub(crate) name: String,
    /// Ends of the line, which is straight even on logarithmic axes. Parts outside the axes are not drawn.
    pub(crate) ends: [(f64, f64); 2],
}

impl Guide {
    /// Returns true if some part of the line lies inside the axes.
    pub(crate) fn is_seen(&self, x: &Axis, y: &Axis) -> bool {
        let area = Area { left: 0.0, right: 1.0, top: 0.0, bottom: 1.0 };
        let place = |(a, b): Xy| (x.place_beyond(a, 0.0, 1.0), y.place_beyond(b, 0.0, 1.0));
        area.clip((place(self.ends[0]), place(self.ends[1]))).is_some()
    }
}

pub(crate) struct Lines {
    pub(crate) frame: Frame,
    pub(crate) series: Vec<Series>,
    pub(crate) guides: Vec<Guide>,
    /// True if the axes may end before the lines do, as after a zoom.
    pub(crate) zoom: bool,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) x_tick: fn(f64) -> String,
    pub(crate) y_tick: fn(f64) -> String,
    pub(crate) x_caption: String,
    pub(crate) y_caption: String,
}

const LINE: f64 = 15.0;
/// Width of the line and the marker before a name.
const SAMPLE: f64 = 26.0;
/// Distance from the plot to the samples if there are few lines.
const LEADER: f64 = 18.0;
/// Height of a narrow plot.
const NARROW_PLOT: f64 = 250.0;

/// Number of points above which a line is thinned out by columns of pixels.
const MOST_POINTS: usize = 2000;

struct PlotArea {
    width: f64,
    /// Distance from the plot to the samples.
    leader: f64,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

impl PlotArea {
    fn area(&self) -> Area {
        Area { left: self.left, top: self.top, right: self.right, bottom: self.bottom }
    }
}

/// A series with its positions in the plot.
struct Placed {
    /// Indices and positions of the drawn points.
    kept: Vec<usize>,
    points: Vec<Xy>,
    /// Visible pieces of the line inside the plot, in order, given by their ends.
    seen: Vec<Xy>,
}

impl Lines {
    pub(crate) fn draw(mut self) -> Result<Chart, ChartError> {
        let width = self.frame.width;
        let narrow = is_narrow(width);
        let keys = || self.series.iter().filter(|s| !s.is_rest);
        let labels: f64 = keys().map(|s| s.label.len() as f64 * LINE + 4.0).sum();
        let height = if narrow { NARROW_PLOT } else { labels.max(310.0) };
        let below = if narrow { labels + 6.0 } else { 0.0 };
        let y_labels = self.y.ticks.iter().map(|t| Font::SMALL.width(&(self.y_tick)(*t))).fold(0.0, f64::max);
        let widest = keys().flat_map(|s| &s.label).map(|l| Font::NOTE.width(l)).fold(0.0, f64::max);
        let room = widest.clamp(40.0, 220.0);
        let left = MARGIN + y_labels.clamp(20.0, 90.0) + 8.0;
        // If there are many names, some are far from their lines' ends, so leaders need more room.
        let leader = if keys().count() > 10 { LEADER * 2.0 } else { LEADER };
        let right = if narrow { width - MARGIN - 8.0 } else { width - MARGIN - room - SAMPLE - 6.0 - leader };
        // A linear axis may have long tick labels.
        let tick_width = self.x.ticks.iter().map(|t| Font::SMALL.width(&(self.x_tick)(*t))).fold(24.0, f64::max);
        self.x = self.x.with_ticks(((right - left) / (tick_width + 16.0)).clamp(2.0, 8.0) as usize);
        let shared = self.shared();
        let Self { frame, series, guides, zoom, x, y, x_tick, y_tick, x_caption, y_caption } = self;
        let lines = |text: &str, room: f64| text::wrap(text, room, 12.0, false, 3).len() as f64 * 16.0;
        let above = lines(&y_caption, width - 2.0 * MARGIN) + 6.0;
        let axis = 24.0 + lines(&x_caption, right - left);
        frame.draw(above + height + axis + below, |canvas, top| {
            let plot = PlotArea { width, leader, left, right, top: top + above, bottom: top + above + height };
            let place =
                |(a, b): (f64, f64)| (x.position(a, plot.left, plot.right), y.position(b, plot.bottom, plot.top));
            canvas.wrapped(&y_caption, width - 2.0 * MARGIN, 3, (MARGIN, top + 6.0), Font::SMALL)?;
            for t in &y.ticks {
                let (_, at) = place((x.low(), *t));
                canvas.line(&[(plot.left, at), (plot.right, at)], Stroke::new(Paint::FAINT, 1.0))?;
                canvas.text(&y_tick(*t), (plot.left - 7.0, at), At::Right, Font::SMALL)?;
            }
            for t in &x.ticks {
                let (at, _) = place((*t, y.low()));
                canvas.line(&[(at, plot.top), (at, plot.bottom + 4.0)], Stroke::new(Paint::FAINT, 1.0))?;
                let text = x_tick(*t);
                let at = at.min(width - Font::SMALL.width(&text) / 2.0 - 2.0);
                canvas.text(&text, (at, plot.bottom + 13.0), At::Middle, Font::SMALL)?;
            }
            let words = if zoom { plot_words((&x, &y), [left, plot.top, right, plot.bottom]) } else { String::new() };
            canvas.marked(&MarkData { plot: words, ..MarkData::default() }, || {
                canvas.line(&[(left, plot.bottom), (right, plot.bottom)], Stroke::new(Paint::MUTED, 1.0))
            })?;
            canvas.wrapped(&x_caption, right - left, 3, (left, plot.bottom + 30.0), Font::SMALL)?;
            let beyond = |(a, b): (f64, f64)| {
                (x.place_beyond(a, plot.left, plot.right), y.place_beyond(b, plot.bottom, plot.top))
            };
            let drawn: Vec<Placed> = series
                .iter()
                .map(|s| if zoom { Placed::new(s, beyond, Some(plot.area())) } else { Placed::new(s, place, None) })
                .collect();
            let value = |(a, b): (f64, f64)| format!("{} at {x_caption} {}", significant(b, 4), plain(a));
            let lines = guides.iter().map(|g| (g.name.as_str(), (beyond(g.ends[0]), beyond(g.ends[1]))));
            draw_guides(canvas, lines, &drawn, &plot)?;
            canvas.marked(&shared, || {
                // Comparison lines are drawn first, below the highlighted ones.
                let order = series.iter().zip(&drawn).filter(|(s, _)| s.is_rest);
                for (s, placed) in order.chain(series.iter().zip(&drawn).filter(|(s, _)| !s.is_rest)) {
                    let data = |i: usize| match (s.each.get(placed.kept[i]), s.points[placed.kept[i]]) {
                        (Some(data), _) => data.clone(),
                        (None, point) => MarkData { value: value(point), ..MarkData::default() },
                    };
                    canvas.marked(&MarkData { series: s.key(), ..s.data.clone() }, || {
                        draw_line(canvas, s, placed, zoom.then(|| plot.area()), data)
                    })?;
                }
                Ok(())
            })?;
            draw_breaks(canvas, &series, &drawn, &plot)?;
            match narrow {
                true => draw_keys(canvas, &series, (plot.bottom + axis + 6.0, width)),
                false => draw_labels(canvas, &series, &drawn, &plot),
            }
        })
    }

    /// Returns the problem shared by all marks, if there is one.
    fn shared(&mut self) -> MarkData {
        let each: Vec<&mut MarkData> =
            self.series.iter_mut().flat_map(|s| s.each.iter_mut().chain([&mut s.data])).collect();
        shared_problem(each.into_iter())
    }
}

impl Placed {
    fn new(series: &Series, place: impl Fn(Xy) -> Xy, within: Option<Area>) -> Self {
        let kept = thinned(&placed(&series.points, &place));
        let points: Vec<Xy> = kept.iter().map(|i| place(series.points[*i])).collect();
        let seen = match within {
            None => points.clone(),
            Some(area) if points.len() < 2 || series.scattered => {
                points.iter().copied().filter(|p| area.has(*p)).collect()
            }
            Some(area) => points.windows(2).filter_map(|w| area.clip((w[0], w[1]))).flat_map(|(a, b)| [a, b]).collect(),
        };
        Self { kept, points, seen }
    }
}

fn draw_guides<'a>(
    canvas: &Canvas<'_>,
    guides: impl Iterator<Item = (&'a str, (Xy, Xy))>,
    drawn: &[Placed],
    plot: &PlotArea,
) -> Drawn {
    let area = plot.area();
    let seen: Vec<(&str, (Xy, Xy))> = guides.filter_map(|(n, line)| Some((n, area.clip(line)?))).collect();
    let mut room = Room::new(area);
    drawn.iter().for_each(|p| room.line(&p.points));
    seen.iter().for_each(|(_, (a, b))| room.line(&[*a, *b]));
    for (name, (a, b)) in seen {
        let along = room.along((a, b), Font::SMALL.width(name), 0.0);
        canvas.marked(&MarkData::reference(name), || {
            canvas.line(&[a, b], Stroke::dashed(Paint::MUTED, 1.0, 2))?;
            along.map_or(Ok(()), |at| canvas.turned(name, at.middle, at.degrees, Font::SMALL))
        })?;
    }
    Ok(())
}

fn placed(points: &[Xy], place: impl Fn(Xy) -> Xy) -> Vec<Xy> {
    points.iter().map(|p| place(*p)).collect()
}

/// Returns the indices of distinguishable points: of many points in one column of pixels, only the first, the lowest,
/// the highest and the last.
fn thinned(points: &[Xy]) -> Vec<usize> {
    if points.len() <= MOST_POINTS {
        return (0..points.len()).collect();
    }
    let mut out: Vec<usize> = Vec::new();
    let mut first = 0;
    for column in points.chunk_by(|a, b| a.0.floor() == b.0.floor()) {
        let by_height = |a: &usize, b: &usize| column[*a].1.total_cmp(&column[*b].1);
        let all = 0..column.len();
        let mut kept = vec![0, column.len() - 1];
        kept.extend(all.clone().min_by(by_height));
        kept.extend(all.max_by(by_height));
        kept.sort();
        kept.dedup();
        out.extend(kept.into_iter().map(|i| first + i));
        first += column.len();
    }
    out
}

/// Draws a line and its points, each as a mark. A line without point marks is a mark itself, with its last value.
fn draw_line(
    canvas: &Canvas<'_>,
    s: &Series,
    placed: &Placed,
    within: Option<Area>,
    data: impl Fn(usize) -> MarkData,
) -> Drawn {
    let points = &placed.points;
    let joined: Vec<Xy> =
        points.iter().zip(&placed.kept).filter(|(_, i)| !s.apart.contains(i)).map(|(p, _)| *p).collect();
    if joined.len() > 1 && !s.scattered {
        let whole = if s.marker.is_none() { data(points.len() - 1) } else { MarkData::default() };
        canvas.marked(&whole, || match within {
            Some(area) if joined.iter().any(|p| !area.has(*p)) => {
                let pieces = joined.windows(2).filter_map(|w| area.clip((w[0], w[1])));
                pieces.into_iter().try_for_each(|(a, b)| canvas.line(&[a, b], s.stroke))
            }
            _ => canvas.line(&joined, s.stroke),
        })?;
    }
    if let Some(marker) = s.marker {
        // More point marks would run into each other.
        let most = if s.scattered { 400 } else { 40 };
        let every = points.len().div_ceil(most).max(1);
        for (i, p) in points.iter().enumerate().step_by(every) {
            if within.is_none_or(|area| area.has(*p)) {
                canvas.marked(&data(i), || canvas.marker(marker, *p, s.stroke.paint))?;
            }
        }
    }
    Ok(())
}

/// Draws the names below a narrow plot.
fn draw_keys(canvas: &Canvas<'_>, series: &[Series], (top, width): (f64, f64)) -> Drawn {
    let mut y = top;
    for s in series.iter().filter(|s| !s.is_rest) {
        canvas.marked(&MarkData::legend(s.key()), || draw_key(canvas, s, (MARGIN, y), width))?;
        y += s.label.len() as f64 * LINE + 4.0;
    }
    Ok(())
}

/// Draws a sample and the names beside it.
fn draw_key(canvas: &Canvas<'_>, s: &Series, (left, top): Xy, width: f64) -> Drawn {
    // The sample is beside the only name, or beside the middle of several.
    let middle = top + 2.0 + s.label.len() as f64 * LINE / 2.0;
    if !s.scattered {
        canvas.line(&[(left, middle), (left + SAMPLE - 4.0, middle)], s.stroke)?;
    }
    if let Some(marker) = s.marker {
        canvas.marker(marker, (left + SAMPLE / 2.0 - 2.0, middle), s.stroke.paint)?;
    }
    for (n, text) in s.label.iter().enumerate() {
        let at = (left + SAMPLE + 2.0, top + 2.0 + (n as f64 + 0.5) * LINE);
        let font = if n < s.names { Font { paint: Paint::INK, ..Font::NOTE } } else { Font::SMALL };
        canvas.elided(text, width - MARGIN - at.0, at, At::Left, font)?;
    }
    Ok(())
}

/// Draws a cross where a line breaks off, with the reason unless another text is in the way; the label has the reason, too.
fn draw_breaks(canvas: &Canvas<'_>, series: &[Series], drawn: &[Placed], plot: &PlotArea) -> Drawn {
    let mut taken: Vec<(f64, f64, f64)> = Vec::new();
    for (s, placed) in series.iter().zip(drawn) {
        let Some(((x, y), why)) = placed.seen.last().copied().zip(s.broken.as_ref()) else { continue };
        canvas.marker(Marker::Cross, (x, y), Paint::INK)?;
        let font = Font { paint: Paint::INK, ..Font::SMALL };
        let width = font.width(why);
        let left = if x + 10.0 + width <= plot.right { x + 10.0 } else { x - 10.0 - width };
        let y = y.clamp(plot.top + 8.0, plot.bottom - 8.0);
        let free = taken.iter().all(|(a, b, h)| left > *b || left + width < *a || (y - h).abs() > LINE);
        if free && left >= plot.left {
            canvas.text(why, (left, y), At::Left, font)?;
            taken.push((left, left + width, y));
        }
    }
    Ok(())
}

/// Draws the names to the right, each as near as possible to its line's end.
fn draw_labels(canvas: &Canvas<'_>, series: &[Series], drawn: &[Placed], plot: &PlotArea) -> Drawn {
    let named = series.iter().zip(drawn).filter(|(s, _)| !s.is_rest);
    let (series, seen): (Vec<&Series>, Vec<Vec<Xy>>) = named.map(|(s, p)| (s, p.seen.clone())).unzip();
    let end = |i: usize| seen[i].last().copied().unwrap_or((plot.right, plot.bottom));
    let (order, wanted) = order(&seen);
    let heights: Vec<f64> = order.iter().map(|i| series[*i].label.len() as f64 * LINE + 4.0).collect();
    let wanted: Vec<f64> = wanted.iter().zip(&heights).map(|(y, h)| y - h / 2.0).collect();
    let tops = spread(&wanted, &heights, plot.top, plot.bottom);
    for ((i, top), height) in order.iter().zip(tops).zip(&heights) {
        let s = series[*i];
        canvas.marked(&MarkData::legend(s.key()), || draw_label(canvas, s, end(*i), (top, *height), plot))?;
    }
    Ok(())
}

/// Draws an entry of the legend: a leader from the line's end, a sample, and the names.
fn draw_label(canvas: &Canvas<'_>, s: &Series, (x, y): Xy, (top, height): (f64, f64), plot: &PlotArea) -> Drawn {
    let sample = plot.right + plot.leader;
    let middle = top + height / 2.0;
    let leader = Stroke::new(Paint { alpha: 0.35, ..Paint::INK }, 0.8);
    // A long leader would look like a line of the plot, so only the sample is drawn.
    if plot.right - x < 40.0 && (middle - y).abs() < 60.0 + 3.0 * (plot.leader - LEADER) {
        canvas.line(&[(x + 6.0, y), (plot.right + 4.0, y), (sample - 3.0, middle)], leader)?;
    }
    draw_key(canvas, s, (sample, top), plot.width)
}

/// Returns the lines that have points, from top to bottom by their ends, and the preferred height of each label. A line
/// that ends early keeps its place among the others.
fn order(drawn: &[Vec<Xy>]) -> (Vec<usize>, Vec<f64>) {
    let ends: Vec<(usize, Xy)> = drawn.iter().enumerate().filter_map(|(i, p)| Some((i, *p.last()?))).collect();
    let last = ends.iter().map(|(_, e)| e.0).fold(0.0, f64::max);
    let (mut whole, mut short): (Vec<_>, Vec<_>) = ends.into_iter().partition(|(_, e)| last - e.0 < 40.0);
    let by_height = |a: &(usize, Xy), b: &(usize, Xy)| a.1.1.total_cmp(&b.1.1).then(a.0.cmp(&b.0));
    whole.sort_by(by_height);
    short.sort_by(by_height);
    let mut out: Vec<(usize, f64)> = whole.iter().map(|(i, e)| (*i, e.1)).collect();
    for (i, (x, y)) in short {
        let there = |i: usize| drawn[i].iter().find(|p| (p.0 - x).abs() < 0.5).map(|p| p.1);
        // A line is inserted above the first line that was below it.
        let at = out.iter().position(|(other, _)| there(*other).is_some_and(|other| other > y)).unwrap_or(out.len());
        let wish = out.get(at).or(out.last()).map_or(y, |o| o.1);
        out.insert(at, (i, wish));
    }
    out.into_iter().unzip()
}

/// Returns the tops of boxes in order, moved as little as possible so that they neither overlap nor leave the range.
fn spread(wanted: &[f64], heights: &[f64], top: f64, bottom: f64) -> Vec<f64> {
    // Boxes that touch move together, to the mean of their preferred positions.
    struct Cluster {
        top: f64,
        height: f64,
        wish: f64,
        members: usize,
    }
    let fit = |wish: f64, height: f64| wish.min(bottom - height).max(top);
    let mut clusters: Vec<Cluster> = Vec::new();
    for (w, h) in wanted.iter().zip(heights) {
        let mut next = Cluster { top: fit(*w, *h), height: *h, wish: *w, members: 1 };
        while let Some(last) = clusters.pop_if(|last| last.top + last.height > next.top) {
            let members = last.members + next.members;
            // `wish` is the start that suits the cluster's members best.
            let wish =
                (last.wish * last.members as f64 + (next.wish - last.height) * next.members as f64) / members as f64;
            let height = last.height + next.height;
            next = Cluster { top: fit(wish, height), height, wish, members };
        }
        clusters.push(next);
    }
    let mut out = Vec::with_capacity(wanted.len());
    let mut heights = heights.iter();
    for c in clusters {
        let mut y = c.top;
        for h in heights.by_ref().take(c.members) {
            out.push(y);
            y += h;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_the_order_of_the_ends() {
        let line = |points: &[Xy]| points.to_vec();
        let drawn = [
            line(&[(0.0, 50.0), (100.0, 40.0)]),
            line(&[(0.0, 10.0), (100.0, 5.0)]),
            // This line ends early, between the two others.
            line(&[(0.0, 20.0)]),
            line(&[]),
        ];
        assert_eq!(order(&drawn), (vec![1, 2, 0], vec![5.0, 40.0, 40.0]));
    }

    #[test]
    fn a_line_of_many_points_keeps_its_ends_and_peaks() {
        let few: Vec<Xy> = (0..2000).map(|i| (f64::from(i) / 100.0, 1.0)).collect();
        assert_eq!(thinned(&few), (0..2000).collect::<Vec<_>>());
        let many: Vec<Xy> =
            (0..50_000).map(|i| (f64::from(i) / 100.0, if i == 12_345 { 99.0 } else { f64::from(i % 7) })).collect();
        let kept: Vec<Xy> = thinned(&many).into_iter().map(|i| many[i]).collect();
        assert!(kept.len() <= 4 * 500 && kept.len() > 500, "{}", kept.len());
        assert_eq!((kept.first(), kept.last()), (many.first(), many.last()));
        assert!(kept.contains(&many[12_345]) && kept.is_sorted_by(|a, b| a.0 <= b.0));
    }

    #[test]
    fn labels_are_kept_apart() {
        let check = |wanted: &[f64], expect: &[f64]| {
            let heights = vec![10.0; wanted.len()];
            assert_eq!(spread(wanted, &heights, 0.0, 100.0), expect, "{wanted:?}");
        };
        check(&[20.0, 50.0], &[20.0, 50.0]);
        check(&[20.0, 20.0], &[15.0, 25.0]);
        check(&[-5.0, 0.0], &[0.0, 10.0]);
        check(&[95.0, 95.0, 95.0], &[70.0, 80.0, 90.0]);
        check(&[20.0, 24.0, 40.0], &[17.0, 27.0, 40.0]);
        check(&[], &[]);
    }
}
