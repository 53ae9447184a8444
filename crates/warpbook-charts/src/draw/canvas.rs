//! A drawing area in CSS pixels.

use crate::draw::backend::{SvgBackend, Text, UNIT};
use crate::draw::chart::ChartError;
use crate::draw::colour::Rgb;
use crate::draw::mark_data::MarkData;
use crate::draw::text;
use plotters::coord::Shift;
use plotters::element::{Drawable, PointCollection};
use plotters::prelude::{
    Circle, DrawingArea, DrawingAreaErrorKind, IntoDrawingArea, PathElement, Polygon, RGBAColor, Rectangle,
};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, FontDesc, FontFamily, FontStyle, ShapeStyle, TextStyle};
use plotters_backend::DrawingErrorKind;
use std::cell::RefCell;
use std::convert::Infallible;

/// Success or failure of a drawing call; the canvas stores the reason. The error has no size, so each `?` is a single
/// branch.
pub(crate) type Drawn = Result<(), Undrawn>;

/// A failure of a drawing call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Undrawn;

type Point = (i32, i32);

/// Width of a chart in a notebook, and of all diagrams, in CSS pixels.
pub(crate) const WIDTH: f64 = 720.0;
/// Width of the empty border around a chart.
pub(crate) const MARGIN: f64 = 12.0;

/// The colour of the text around the chart; see [`crate::draw::backend`].
const BLACK: Rgb = (0, 0, 0);

/// A stroke or a fill: a colour and its opacity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Paint {
    pub(crate) rgb: Rgb,
    pub(crate) alpha: f64,
}

impl Paint {
    /// Colour of the surrounding text.
    pub(crate) const INK: Self = Self::solid(BLACK);
    /// Paint of secondary text: subtitles, tick labels.
    pub(crate) const MUTED: Self = Self::faded(BLACK, 0.72);
    /// Paint of grids.
    pub(crate) const FAINT: Self = Self::faded(BLACK, 0.14);

    pub(crate) const fn solid(rgb: Rgb) -> Self {
        Self { rgb, alpha: 1.0 }
    }

    pub(crate) const fn faded(rgb: Rgb, alpha: f64) -> Self {
        Self { rgb, alpha }
    }

    fn color(self) -> RGBAColor {
        RGBAColor(self.rgb.0, self.rgb.1, self.rgb.2, self.alpha)
    }

    fn filled(self) -> ShapeStyle {
        ShapeStyle { color: self.color(), filled: true, stroke_width: 0 }
    }
}

/// A stroke: paint, width in CSS pixels, and index of its dash pattern (0 is a solid line).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Stroke {
    pub(crate) paint: Paint,
    pub(crate) width: f64,
    pub(crate) dash: usize,
}

impl Stroke {
    pub(crate) fn new(paint: Paint, width: f64) -> Self {
        Self { paint, width, dash: 0 }
    }

    pub(crate) fn dashed(paint: Paint, width: f64, dash: usize) -> Self {
        Self { paint, width, dash }
    }

    fn style(self) -> ShapeStyle {
        ShapeStyle { color: self.paint.color(), filled: false, stroke_width: (self.width * UNIT).round() as u32 }
    }
}

/// A text's size in CSS pixels, weight and paint.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Font {
    pub(crate) size: f64,
    pub(crate) bold: bool,
    pub(crate) paint: Paint,
}

impl Font {
    pub(crate) const TITLE: Self = Self { size: 16.0, bold: true, paint: Paint::INK };
    pub(crate) const HEADING: Self = Self { size: 13.0, bold: true, paint: Paint::INK };
    pub(crate) const BODY: Self = Self { size: 13.0, bold: false, paint: Paint::INK };
    pub(crate) const NOTE: Self = Self { size: 12.0, bold: false, paint: Paint::MUTED };
    pub(crate) const SMALL: Self = Self { size: 12.0, bold: false, paint: Paint::MUTED };

    pub(crate) fn width(&self, text: &str) -> f64 {
        text::width(text, self.size, self.bold)
    }
}

/// Position of a text's anchor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum At {
    Left,
    Middle,
    Right,
}

impl At {
    fn h_pos(self) -> HPos {
        match self {
            Self::Left => HPos::Left,
            Self::Middle => HPos::Center,
            Self::Right => HPos::Right,
        }
    }
}

/// The shape of a marker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Marker {
    Disc,
    /// A dot for marks shown for comparison only; no series has it.
    Dot,
    Square,
    Triangle,
    Diamond,
    Ring,
    Plus,
    Down,
    Cross,
}

/// Markers of lines, in the order in which lines use them.
pub(crate) const MARKERS: [Marker; 8] = [
    Marker::Disc,
    Marker::Square,
    Marker::Triangle,
    Marker::Diamond,
    Marker::Ring,
    Marker::Plus,
    Marker::Down,
    Marker::Cross,
];

pub(crate) struct Canvas<'a> {
    area: DrawingArea<SvgBackend<'a>, Shift>,
    width: f64,
    /// Reason for the last failure.
    error: RefCell<String>,
}

fn at(x: f64, y: f64) -> Point {
    (tenths(x), tenths(y))
}

fn tenths(px: f64) -> i32 {
    // The clamp leaves room for plotters' additions; anything beyond it is invisible anyway.
    (px * UNIT).round().clamp(-1e6, 1e6) as i32
}

impl<'a> Canvas<'a> {
    /// Draws a picture with the given size in CSS pixels and returns the SVG elements.
    pub(crate) fn draw(
        width: f64,
        size: (u32, u32),
        picture: impl FnOnce(&Canvas<'_>) -> Drawn,
    ) -> Result<String, ChartError> {
        let mut body = String::new();
        let area = SvgBackend::new(&mut body, (size.0 * UNIT as u32, size.1 * UNIT as u32)).into_drawing_area();
        let canvas = Canvas { area, width, error: RefCell::default() };
        let done = picture(&canvas).and_then(|()| canvas.done(canvas.area.present()));
        done.map_err(|Undrawn| {
            ChartError::NothingToDraw(format!("The chart could not be drawn: {}.", canvas.error.borrow()))
        })?;
        drop(canvas);
        Ok(body)
    }

    /// Returns the width in CSS pixels.
    pub(crate) fn width(&self) -> f64 {
        self.width
    }

    fn put<'e, E>(&self, element: &'e E) -> Drawn
    where
        &'e E: PointCollection<'e, Point>,
        E: Drawable<SvgBackend<'a>>,
    {
        self.done(self.area.draw(element))
    }

    /// Draws an element that plotters does not support.
    fn call(&self, points: Vec<Point>, write: impl Fn(&mut SvgBackend<'a>, Vec<Point>)) -> Drawn {
        self.put(&Call(points, write))
    }

    #[inline(never)]
    fn done(&self, result: Result<(), DrawingAreaErrorKind<Infallible>>) -> Drawn {
        result.map_err(|e| {
            self.error.replace(e.to_string());
            Undrawn
        })
    }

    pub(crate) fn line(&self, points: &[(f64, f64)], stroke: Stroke) -> Drawn {
        let points: Vec<Point> = points.iter().map(|(x, y)| at(*x, *y)).collect();
        let style = stroke.style();
        if stroke.dash == 0 {
            return self.put(&PathElement::new(points, style));
        }
        let pen = (style.color.to_backend_color(), style.stroke_width);
        self.call(points, |svg, points| svg.polyline(points, pen, stroke.dash))
    }

    pub(crate) fn rect(&self, x: (f64, f64), y: (f64, f64), paint: Paint) -> Drawn {
        self.put(&Rectangle::new([at(x.0, y.0), at(x.1, y.1)], paint.filled()))
    }

    pub(crate) fn marker(&self, shape: Marker, (x, y): (f64, f64), paint: Paint) -> Drawn {
        let polygon = |points: &[(f64, f64)]| {
            let points: Vec<Point> = points.iter().map(|(dx, dy)| at(x + dx, y + dy)).collect();
            self.put(&Polygon::new(points, paint.filled()))
        };
        let strokes = |a: [(f64, f64); 2], b: [(f64, f64); 2]| {
            for [p, q] in [a, b] {
                self.line(&[(x + p.0, y + p.1), (x + q.0, y + q.1)], Stroke::new(paint, 2.2))?;
            }
            Ok(())
        };
        match shape {
            Marker::Disc => self.put(&Circle::new(at(x, y), tenths(4.0), paint.filled())),
            Marker::Dot => self.put(&Circle::new(at(x, y), tenths(1.8), paint.filled())),
            Marker::Ring => self.put(&Circle::new(at(x, y), tenths(3.6), Stroke::new(paint, 2.0).style())),
            Marker::Square => polygon(&[(-3.6, -3.6), (3.6, -3.6), (3.6, 3.6), (-3.6, 3.6)]),
            Marker::Triangle => polygon(&[(0.0, -4.8), (4.6, 3.4), (-4.6, 3.4)]),
            Marker::Down => polygon(&[(0.0, 4.8), (4.6, -3.4), (-4.6, -3.4)]),
            Marker::Diamond => polygon(&[(0.0, -5.0), (5.0, 0.0), (0.0, 5.0), (-5.0, 0.0)]),
            Marker::Plus => strokes([(-4.6, 0.0), (4.6, 0.0)], [(0.0, -4.6), (0.0, 4.6)]),
            Marker::Cross => strokes([(-3.8, -3.8), (3.8, 3.8)], [(-3.8, 3.8), (3.8, -3.8)]),
        }
    }

    /// Draws a mark, or a group of marks, with its data. Without data there is no group.
    pub(crate) fn marked(&self, data: &MarkData, picture: impl FnOnce() -> Drawn) -> Drawn {
        let attributes = data.attributes();
        if attributes.is_empty() {
            return picture();
        }
        self.call(Vec::new(), |svg, _| svg.open_group(&attributes))?;
        picture()?;
        self.call(Vec::new(), |svg, _| svg.close_group())
    }

    /// Draws a line of text, vertically centred at y.
    pub(crate) fn text(&self, text: &str, (x, y): (f64, f64), anchor: At, font: Font) -> Drawn {
        self.write(&text::clean(text), (x, y), anchor, font)
    }

    /// Draws a line of text centred at a position and rotated clockwise.
    pub(crate) fn turned(&self, text: &str, place: (f64, f64), degrees: f64, font: Font) -> Drawn {
        self.write_with(&text::clean(text), None, Some(degrees), (place, At::Middle, font))
    }

    /// Draws a line of text that runs upwards from a position.
    pub(crate) fn upwards(&self, text: &str, room: f64, place: (f64, f64), font: Font) -> Drawn {
        let text = text::clean(text);
        let shown = text::elide(&text, room, font.size, font.bold);
        let title = Some(text.as_str()).filter(|text| *text != shown);
        self.write_with(&shown, title, Some(-90.0), (place, At::Left, font))
    }

    /// Draws a line of text with a tooltip.
    pub(crate) fn titled(&self, text: &str, title: &str, place: (f64, f64), anchor: At, font: Font) -> Drawn {
        self.write_with(&text::clean(text), Some(&text::clean(title)), None, (place, anchor, font))
    }

    /// Draws a line of text cut to a width; the tooltip then has the whole text.
    pub(crate) fn elided(&self, text: &str, room: f64, place: (f64, f64), anchor: At, font: Font) -> Drawn {
        let text = text::clean(text);
        let shown = text::elide(&text, room, font.size, font.bold);
        match shown == text {
            true => self.write(&text, place, anchor, font),
            false => self.write_with(&shown, Some(&text), None, (place, anchor, font)),
        }
    }

    /// Draws text in at most `lines` lines, 1.35 font sizes apart, the first centred at y. If it does not fit, a
    /// tooltip has the whole text.
    pub(crate) fn wrapped(&self, text: &str, room: f64, lines: usize, (x, y): (f64, f64), font: Font) -> Drawn {
        let text = text::clean(text);
        let shown = text::wrap(&text, room, font.size, font.bold, lines);
        let cut = shown.last().is_some_and(|l| l.ends_with('…'));
        for (i, line) in shown.iter().enumerate() {
            let place = (x, y + i as f64 * line_height(font));
            match cut {
                true => self.write_with(line, Some(&text), None, (place, At::Left, font))?,
                false => self.write(line, place, At::Left, font)?,
            }
        }
        Ok(())
    }

    fn write(&self, text: &str, (x, y): (f64, f64), anchor: At, font: Font) -> Drawn {
        let style = if font.bold { FontStyle::Bold } else { FontStyle::Normal };
        // The font is named only once, at the root.
        let desc = FontDesc::new(FontFamily::SansSerif, font.size * UNIT, style);
        let color = font.paint.color();
        let style = TextStyle::from(desc).color(&color).pos(Pos::new(anchor.h_pos(), VPos::Center));
        self.done(self.area.draw_text(text, &style, at(x, y)))
    }

    /// Draws a text with a tooltip or a rotation, which plotters does not support.
    fn write_with(
        &self,
        text: &str,
        title: Option<&str>,
        turn: Option<f64>,
        ((x, y), anchor, font): ((f64, f64), At, Font),
    ) -> Drawn {
        let color = font.paint.color().to_backend_color();
        let text = Text { text, title, turn, anchor: anchor.h_pos(), size: font.size * UNIT, bold: font.bold, color };
        self.call(Vec::new(), |svg, _| svg.text(&text, at(x, y)))
    }
}

/// An element that plotters lacks: its points, and a call to the backend with them.
struct Call<F>(Vec<Point>, F);

impl<'a, F> PointCollection<'a, Point> for &'a Call<F> {
    type Point = &'a Point;
    type IntoIter = &'a [Point];

    fn point_iter(self) -> &'a [Point] {
        &self.0
    }
}

impl<'b, F: Fn(&mut SvgBackend<'b>, Vec<Point>)> Drawable<SvgBackend<'b>> for Call<F> {
    fn draw<I: Iterator<Item = Point>>(
        &self,
        points: I,
        backend: &mut SvgBackend<'b>,
        _: (u32, u32),
    ) -> Result<(), DrawingErrorKind<Infallible>> {
        (self.1)(backend, points.collect());
        Ok(())
    }
}

/// Returns the distance between two lines of text.
pub(crate) fn line_height(font: Font) -> f64 {
    font.size * 1.35
}
