//! Line charts of figures that are not in a record, such as figures that a lesson computes from several trainings.

pub(crate) mod links;
pub(crate) mod memory;
pub(crate) mod power;
pub(crate) mod scaling;

use crate::draw::text::words::{counted, plain, significant};
use crate::draw::{
    Axis, Chart, ChartError, DASHES, Frame, Lines, MARKERS, MarkData, Options, Paint, Series, Stroke, Table, clean,
};
use crate::record::RunnerKind;

/// A line of a chart: its name, and its points in any order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Curve {
    /// Name at the line's end.
    pub name: String,
    /// Points as (x, y); points that are not finite are left out.
    pub points: Vec<(f64, f64)>,
}

impl Curve {
    /// Makes a line through these points.
    #[must_use]
    pub fn new(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self { name: name.into(), points: points.into_iter().collect() }
    }
}

/// The scale of an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Linear over the range of the values.
    Linear,
    /// Linear from zero.
    FromZero,
    /// Linear from zero, with ticks at whole numbers.
    Whole,
    /// Logarithmic; values that are not above zero are left out.
    Log,
    /// Logarithmic with ticks at powers of two.
    Doubling,
}

impl Scale {
    fn axis(self, values: impl Iterator<Item = f64>) -> Axis {
        match self {
            Self::Linear => Axis::around(values),
            Self::FromZero => Axis::from_zero(values),
            Self::Whole => Axis::from_zero(values).whole(),
            Self::Log => Axis::log(values, 0.08),
            Self::Doubling => Axis::doubling(values, 0.08),
        }
    }

    fn holds(self, value: f64) -> bool {
        value.is_finite() && (value > 0.0 || matches!(self, Self::Linear | Self::FromZero | Self::Whole))
    }
}

impl Options {
    /// Draws lines over two axes, each with its caption: `x` and `y` are (caption, scale).
    ///
    /// # Errors
    /// Returns [`ChartError::NothingToDraw`] if no point can be drawn.
    pub fn curves(
        &self,
        [title, subtitle]: [&str; 2],
        x: (&str, Scale),
        y: (&str, Scale),
        all: &[Curve],
    ) -> Result<Chart, ChartError> {
        let drawn = |p: &&(f64, f64)| x.1.holds(p.0) && y.1.holds(p.1);
        let left_out = all.iter().flat_map(|c| &c.points).filter(|p| !drawn(p)).count();
        let mut series: Vec<Series> = Vec::new();
        for (i, curve) in all.iter().enumerate() {
            let mut points: Vec<(f64, f64)> = curve.points.iter().filter(drawn).copied().collect();
            if points.is_empty() {
                continue;
            }
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            let tones = RunnerKind::Kernels.tones();
            series.push(Series {
                label: vec![clean(&curve.name)],
                names: 1,
                points,
                stroke: Stroke::dashed(Paint::solid(tones[i % tones.len()]), 2.0, i % DASHES.len()),
                marker: Some(MARKERS[i % MARKERS.len()]),
                scattered: false,
                apart: Vec::new(),
                is_rest: false,
                broken: None,
                data: MarkData::default(),
                each: Vec::new(),
            });
        }
        if series.is_empty() {
            return Err(ChartError::NothingToDraw(format!("{title}: there are no points to draw.")));
        }
        let values = || series.iter().flat_map(|s| &s.points);
        let ends = series.iter().filter_map(|s| {
            let ((a, b), (c, d)) = (s.points.first()?, s.points.last()?);
            let name = s.label.concat();
            Some(format!("{name} from {} at {} to {} at {}", figure(*b), plain(*a), figure(*d), plain(*c)))
        });
        let ends: Vec<String> = ends.collect();
        let notes = match left_out {
            0 => Vec::new(),
            n => vec![format!("{} left out, since the axes have no place for them.", counted(n, "point"))],
        };
        Lines {
            x: x.1.axis(values().map(|p| p.0)),
            y: y.1.axis(values().map(|p| p.1)),
            frame: Frame {
                width: self.px(),
                title: clean(title),
                subtitle: clean(subtitle),
                description: format!("{} over {}: {}.", clean(y.0), clean(x.0), ends.join("; ")),
                notes,
                table: table(x.0, all),
            },
            series,
            guides: Vec::new(),
            zoom: false,
            x_tick: plain,
            y_tick: plain,
            x_caption: clean(x.0),
            y_caption: clean(y.0),
        }
        .draw()
    }
}

fn figure(v: f64) -> String {
    significant(v, 4)
}

/// Makes the table: a row for each x, a column for each line.
fn table(x: &str, all: &[Curve]) -> Table {
    let mut table = Table::new(std::iter::once(clean(x)).chain(all.iter().map(|c| clean(&c.name))));
    let mut places: Vec<f64> = all.iter().flat_map(|c| c.points.iter().map(|p| p.0)).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    for place in places {
        let cell = |c: &Curve| c.points.iter().find(|p| p.0 == place).map(|p| figure(p.1)).unwrap_or_default();
        table.push(std::iter::once(plain(place)).chain(all.iter().map(cell)));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two() -> [Curve; 2] {
        [Curve::new("as <is>", [(256.0, 80.0), (64.0, 90.0)]), Curve::new("scaled", [(64.0, 90.5), (1024.0, f64::NAN)])]
    }

    #[test]
    fn lines_are_drawn_in_the_order_of_x_and_said_in_a_table() {
        let chart = Options::default().curves(
            ["By batch", "here"],
            ("batch", Scale::Doubling),
            ("accuracy in %", Scale::Linear),
            &two(),
        );
        let chart = chart.unwrap();
        assert_eq!(chart.table.rows, [["64", "90.00", "90.50"], ["256", "80.00", ""], ["1024", "", "not a number"]]);
        assert!(chart.description.contains("as <is> from 90.00 at 64 to 80.00 at 256"), "{}", chart.description);
        let svg = format!("{}", chart.svg);
        assert!(svg.contains("as &lt;is&gt;") && svg.contains("1 point left out") && !svg.contains("at 1024"), "{svg}");
    }

    #[test]
    fn what_an_axis_has_no_place_for_is_left_out() {
        let line = [Curve::new("a", [(0.0, 1.0), (2.0, -1.0), (4.0, 2.0)])];
        let drawn = |x, y| Options::default().curves(["t", ""], ("x", x), ("y", y), &line).unwrap().svg.to_string();
        assert!(drawn(Scale::Log, Scale::Log).contains("2 points left out"));
        assert!(!drawn(Scale::Whole, Scale::Linear).contains("left out"));
        let none = Options::default().curves(
            ["t", ""],
            ("x", Scale::Log),
            ("y", Scale::Log),
            &[Curve::new("a", [(0.0, 1.0)])],
        );
        assert!(matches!(none, Err(ChartError::NothingToDraw(why)) if why.contains("no points")));
    }
}
