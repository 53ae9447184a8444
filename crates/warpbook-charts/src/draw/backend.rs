//! An SVG backend for plotters with elements that plotters lacks: groups of marks, dashes, tooltips and rotated texts.
//!
//! Coordinates are tenths of a CSS pixel, since plotters uses whole numbers. Black is the colour of the text around the chart.

use crate::draw::text::{self, escape};
use plotters_backend::text_anchor::HPos;
use plotters_backend::{
    BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingBackend, DrawingErrorKind, FontStyle,
};
use std::convert::Infallible;
use std::fmt::Write;

/// Units per CSS pixel.
pub(crate) const UNIT: f64 = 10.0;
/// Font size of most texts, set at the root.
pub(crate) const FONT_SIZE: f64 = 12.0 * UNIT;
/// Dash patterns by number, in tenths of a pixel; the first is a solid line.
pub(crate) const DASHES: [&str; 7] = ["", "60 40", "20 35", "100 35 20 35", "130 45", "60 30 20 30 20 30", "35 30"];
/// At least this many rectangles in a row are merged into one path.
const ROW: usize = 8;
/// Largest overlap of neighbouring rectangles in tenths of a pixel; their drawing order then does not matter.
const OVERLAP: i32 = 3;

/// A line of text with its attributes.
pub(crate) struct Text<'t> {
    pub(crate) text: &'t str,
    /// Text of the tooltip.
    pub(crate) title: Option<&'t str>,
    /// Rotation around the text's position, in degrees clockwise.
    pub(crate) turn: Option<f64>,
    pub(crate) anchor: HPos,
    pub(crate) size: f64,
    pub(crate) bold: bool,
    pub(crate) color: BackendColor,
}

/// A filled rectangle: its left edge and width, its top and height, and its paint as attributes.
struct Rect {
    across: (i32, i32),
    row: (i32, i32),
    paint: String,
}

/// Writes the elements of a picture, one per line.
pub(crate) struct SvgBackend<'a> {
    body: &'a mut String,
    size: (u32, u32),
    /// Consecutive rectangles of a row that are not yet written.
    row: Vec<Rect>,
}

impl<'a> SvgBackend<'a> {
    /// Makes a writer to a buffer; the size is in tenths of a CSS pixel.
    pub(crate) fn new(body: &'a mut String, size: (u32, u32)) -> Self {
        Self { body, size, row: Vec::new() }
    }

    /// Begins a group of marks with these data attributes.
    pub(crate) fn open_group(&mut self, attributes: &[(&str, String)]) {
        self.write_row();
        self.body.push_str("<g");
        for (name, value) in attributes {
            _ = write!(self.body, " data-{name}=\"{}\"", escaped(value));
        }
        self.body.push('>');
    }

    /// Ends a group of marks.
    pub(crate) fn close_group(&mut self) {
        // The last rectangle before the end of a group is not joined.
        let last = self.row.pop();
        self.write_row();
        if let Some(rect) = last {
            self.write_rect(&rect);
        }
        self.body.truncate(self.body.trim_end().len());
        self.body.push_str("</g>\n");
    }

    /// Writes a line through points with a pattern of [`DASHES`].
    pub(crate) fn polyline(
        &mut self,
        points: impl IntoIterator<Item = BackendCoord>,
        (color, width): (BackendColor, u32),
        dash: usize,
    ) {
        if color.alpha == 0.0 {
            return;
        }
        self.write_row();
        _ = write!(self.body, "<polyline fill=\"none\"{}{} stroke-width=\"{width}\"", opacity(color), stroke(color));
        if dash > 0 {
            _ = write!(self.body, " stroke-dasharray=\"{}\"", DASHES[dash % DASHES.len()]);
        }
        _ = writeln!(self.body, " points=\"{}\"/>", joined(points));
    }

    /// Writes a line of text, vertically centred at its position.
    pub(crate) fn text(&mut self, of: &Text<'_>, (x, y): BackendCoord) {
        if of.color.alpha == 0.0 {
            return;
        }
        self.write_row();
        _ = write!(self.body, "<text x=\"{x}\" y=\"{y}\" dy=\"0.5ex\"");
        self.body.push_str(match of.anchor {
            HPos::Left => "",
            HPos::Center => " text-anchor=\"middle\"",
            HPos::Right => " text-anchor=\"end\"",
        });
        if of.size.round() != FONT_SIZE {
            _ = write!(self.body, " font-size=\"{}\"", of.size.round());
        }
        _ = write!(self.body, "{}{}", opacity(of.color), fill(of.color));
        if of.bold {
            self.body.push_str(" font-weight=\"bold\"");
        }
        if let Some(degrees) = of.turn {
            // Rounding twice gives the same bytes as the published pictures.
            let degrees = (degrees * 100.0).round() / 100.0;
            _ = write!(self.body, " transform=\"rotate({degrees:.1} {x} {y})\"");
        }
        self.body.push('>');
        if let Some(title) = of.title {
            _ = write!(self.body, "<title>{}</title>", escaped(title));
        }
        // The element is written without line breaks inside, since a page that keeps white space would show them.
        _ = writeln!(self.body, "{}</text>", escaped(of.text));
    }

    /// Queues a filled rectangle, which is written later together with the rest of its row.
    fn fill_rect(&mut self, rect: Rect) {
        let follows = |last: &Rect| last.row == rect.row && rect.across.0 + OVERLAP >= last.across.0 + last.across.1;
        if !self.row.last().is_some_and(follows) {
            self.write_row();
        }
        // The first rectangle of a group is not joined.
        match self.body.is_empty() || self.body.ends_with('\n') {
            true => self.row.push(rect),
            false => self.write_rect(&rect),
        }
    }

    fn write_rect(&mut self, Rect { across, row, paint }: &Rect) {
        let ((x, width), (y, height)) = (across, row);
        _ = writeln!(self.body, "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"{paint}/>");
    }

    /// Writes the rectangles of a row. Many rectangles become pieces of one line for each paint, as wide as the row is high, which takes
    /// an eighth of the bytes: an X-ray has thousands of rectangles.
    fn write_row(&mut self) {
        let mut all = std::mem::take(&mut self.row);
        if all.len() < ROW {
            all.iter().for_each(|rect| self.write_rect(rect));
            return;
        }
        while let Some(first) = all.first() {
            let (paint, (y, height)) = (first.paint.clone(), first.row);
            let (same, others): (Vec<Rect>, Vec<Rect>) = all.into_iter().partition(|rect| rect.paint == paint);
            let middle = f64::from(y) + f64::from(height) / 2.0;
            _ = write!(self.body, "<path{} fill=\"none\" stroke-width=\"{height}\" d=\"", stroked(&paint));
            let mut end = None;
            for Rect { across: (x, width), .. } in same {
                match end {
                    None => _ = write!(self.body, "M{x} {middle}h{width}"),
                    Some(end) => _ = write!(self.body, "m{} 0h{width}", x - end),
                }
                end = Some(x + width);
            }
            self.body.push_str("\"/>\n");
            all = others;
        }
    }
}

/// Escapes text and attribute values for XML.
fn escaped(text: &str) -> String {
    escape(text).replace("&#39;", "&apos;")
}

/// Returns the opacity attribute of a colour that is not opaque.
fn opacity(color: BackendColor) -> String {
    if color.alpha == 1.0 { String::new() } else { format!(" opacity=\"{}\"", color.alpha) }
}

/// Returns a colour's hexadecimal code; `None` for the colour of the surrounding text.
fn named(color: BackendColor) -> Option<String> {
    let (r, g, b) = color.rgb;
    ((r, g, b) != (0, 0, 0)).then(|| format!("#{r:02X}{g:02X}{b:02X}"))
}

/// Returns the fill attribute; empty for the text's colour, which is the root's fill.
fn fill(color: BackendColor) -> String {
    named(color).map_or_else(String::new, |name| format!(" fill=\"{name}\""))
}

/// Returns a fill's attributes for a stroke of the same colour.
fn stroked(paint: &str) -> String {
    match paint.contains(" fill=") {
        true => paint.replace(" fill=", " stroke="),
        false => format!("{paint} stroke=\"currentColor\""),
    }
}

fn stroke(color: BackendColor) -> String {
    format!(" stroke=\"{}\"", named(color).as_deref().unwrap_or("currentColor"))
}

fn joined(points: impl IntoIterator<Item = BackendCoord>) -> String {
    let each: Vec<String> = points.into_iter().map(|(x, y)| format!("{x},{y}")).collect();
    each.join(" ")
}

type Done = Result<(), DrawingErrorKind<Infallible>>;

impl DrawingBackend for SvgBackend<'_> {
    type ErrorType = Infallible;

    fn get_size(&self) -> (u32, u32) {
        self.size
    }

    fn ensure_prepared(&mut self) -> Done {
        Ok(())
    }

    fn present(&mut self) -> Done {
        self.write_row();
        Ok(())
    }

    fn draw_pixel(&mut self, (x, y): BackendCoord, color: BackendColor) -> Done {
        self.draw_rect((x, y), (x + 1, y + 1), &color, true)
    }

    fn draw_line<S: BackendStyle>(&mut self, from: BackendCoord, to: BackendCoord, style: &S) -> Done {
        self.draw_path([from, to], style)
    }

    fn draw_rect<S: BackendStyle>(&mut self, (x, y): BackendCoord, to: BackendCoord, style: &S, filled: bool) -> Done {
        let color = style.color();
        if !filled {
            return self.draw_path([(x, y), (to.0, y), to, (x, to.1), (x, y)], style);
        }
        if color.alpha > 0.0 {
            let paint = format!("{}{}", opacity(color), fill(color));
            self.fill_rect(Rect { across: (x, to.0 - x), row: (y, to.1 - y), paint });
        }
        Ok(())
    }

    fn draw_path<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(&mut self, path: I, style: &S) -> Done {
        self.polyline(path, (style.color(), style.stroke_width()), 0);
        Ok(())
    }

    fn draw_circle<S: BackendStyle>(&mut self, (x, y): BackendCoord, radius: u32, style: &S, filled: bool) -> Done {
        let color = style.color();
        if color.alpha == 0.0 {
            return Ok(());
        }
        self.write_row();
        let paint = if filled { fill(color) } else { format!(" fill=\"none\"{}", stroke(color)) };
        let (opacity, width) = (opacity(color), style.stroke_width());
        _ = writeln!(
            self.body,
            "<circle cx=\"{x}\" cy=\"{y}\" r=\"{radius}\"{opacity}{paint} stroke-width=\"{width}\"/>"
        );
        Ok(())
    }

    fn fill_polygon<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(&mut self, path: I, style: &S) -> Done {
        let color = style.color();
        if color.alpha > 0.0 {
            self.write_row();
            _ = writeln!(self.body, "<polygon{}{} points=\"{}\"/>", opacity(color), fill(color), joined(path));
        }
        Ok(())
    }

    fn draw_text<S: BackendTextStyle>(&mut self, text: &str, style: &S, at: BackendCoord) -> Done {
        let (size, bold) = (style.size(), matches!(style.style(), FontStyle::Bold));
        let (anchor, color) = (style.anchor().h_pos, style.color());
        self.text(&Text { text, title: None, turn: None, anchor, size, bold, color }, at);
        Ok(())
    }

    /// Measures text with this crate's own table. plotters would measure in the DOM on a page and with installed fonts elsewhere, so the same record would give
    /// different charts.
    fn estimate_text_size<S: BackendTextStyle>(
        &self,
        text: &str,
        style: &S,
    ) -> Result<(u32, u32), DrawingErrorKind<Infallible>> {
        let width = text::width(text, style.size(), matches!(style.style(), FontStyle::Bold));
        Ok((width.ceil() as u32, style.size().ceil() as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plotters::style::{BLACK, Color, RGBColor, ShapeStyle};

    /// Returns the elements that a drawing writes.
    fn written(draw: impl FnOnce(&mut SvgBackend<'_>)) -> String {
        let mut body = String::new();
        let mut svg = SvgBackend::new(&mut body, (100, 100));
        draw(&mut svg);
        svg.present().unwrap();
        body
    }

    fn of_size(size: f64) -> Text<'static> {
        let color = BLACK.to_backend_color();
        Text { text: "memory", title: None, turn: None, anchor: HPos::Left, size, bold: false, color }
    }

    #[test]
    fn black_is_the_colour_of_the_text_and_lines_have_dashes() {
        let line = |color: BackendColor, dash| written(|svg| svg.polyline([(0, 1), (2, 3)], (color, 15), dash));
        assert_eq!(
            line(BLACK.to_backend_color(), 1),
            "<polyline fill=\"none\" stroke=\"currentColor\" stroke-width=\"15\" stroke-dasharray=\"60 40\" points=\"0,1 2,3\"/>\n"
        );
        assert_eq!(
            line(RGBColor(1, 2, 3).mix(0.5).to_backend_color(), 0),
            "<polyline fill=\"none\" opacity=\"0.5\" stroke=\"#010203\" stroke-width=\"15\" points=\"0,1 2,3\"/>\n"
        );
        assert_eq!(line(BLACK.mix(0.0).to_backend_color(), 0), "");
        let rect = |style: ShapeStyle| written(|svg| svg.draw_rect((1, 2), (4, 8), &style, true).unwrap());
        assert_eq!(
            rect(BLACK.mix(0.15).filled()),
            "<rect x=\"1\" y=\"2\" width=\"3\" height=\"6\" opacity=\"0.15\"/>\n"
        );
    }

    #[test]
    fn rectangles_of_a_row_become_a_path_for_each_paint() {
        let (one, two) = (RGBColor(0x11, 0x11, 0x11), RGBColor(0x22, 0x22, 0x22));
        let rect = |svg: &mut SvgBackend<'_>, x: i32, y: i32, style: ShapeStyle| {
            svg.draw_rect((x, y), (x + 20, y + 23), &style, true).unwrap();
        };
        let row = |svg: &mut SvgBackend<'_>, y: i32, n: i32| {
            (0..n).for_each(|i| rect(svg, 20 * i, y, if i % 2 == 0 { one.filled() } else { two.filled() }));
        };
        let text = |x: i32, y: i32, fill: &str| {
            format!("<rect x=\"{x}\" y=\"{y}\" width=\"20\" height=\"23\" fill=\"{fill}\"/>\n")
        };
        let texts = |y: i32, n: i32| -> String {
            (0..n).map(|i| text(20 * i, y, ["#111111", "#222222"][i as usize % 2])).collect()
        };
        let path = |fill: &str, first: i32| {
            let lines = "m20 0h20".repeat(3);
            format!("<path stroke=\"{fill}\" fill=\"none\" stroke-width=\"23\" d=\"M{first} 16.5h20{lines}\"/>\n")
        };
        let paths = path("#111111", 0) + &path("#222222", 20);
        let few = written(|svg| {
            row(svg, 5, 7);
            row(svg, 30, 7);
        });
        assert_eq!(few, texts(5, 7) + &texts(30, 7));
        let of_label = written(|svg| {
            row(svg, 5, 8);
            svg.text(&of_size(FONT_SIZE), (0, 0));
        });
        assert_eq!(of_label, format!("{paths}<text x=\"0\" y=\"0\" dy=\"0.5ex\">memory</text>\n"));
        let two_rows = written(|svg| {
            row(svg, 5, 8);
            row(svg, 30, 1);
        });
        assert_eq!(two_rows, format!("{paths}{}", texts(30, 1)), "another row");
        let faded = written(|svg| {
            (0..8).for_each(|i| rect(svg, 20 * i, 5, one.mix(if i % 2 == 0 { 1.0 } else { 0.5 }).filled()))
        });
        assert!(
            faded.contains(
                "<path opacity=\"0.5\" stroke=\"#111111\" fill=\"none\" stroke-width=\"23\" d=\"M20 16.5h20m20 0h20"
            ),
            "{faded}"
        );
        let over_another = written(|svg| {
            svg.draw_rect((0, 5), (200, 28), &two.filled(), true).unwrap();
            row(svg, 5, 7);
        });
        assert!(over_another.ends_with(&texts(5, 7)), "drawn over the first: {over_another}");
        let outlined =
            written(|svg| (0..8).for_each(|i| svg.draw_rect((20 * i, 5), (20 * i + 20, 28), &one, false).unwrap()));
        assert!(!outlined.contains("<path") && outlined.contains("fill=\"none\""), "not filled: {outlined}");
        // The first and the last rectangle of a group are not joined.
        let group = |n: i32| {
            written(|svg| {
                svg.open_group(&[("x", "1".into())]);
                row(svg, 5, n);
                svg.close_group();
            })
        };
        assert_eq!(group(1), format!("<g data-x=\"1\">{}</g>\n", texts(5, 1).trim_end()));
        assert_eq!(group(9), format!("<g data-x=\"1\">{}</g>\n", texts(5, 9).trim_end()));
        assert_eq!(group(10).matches("<rect").count(), 2, "{}", group(10));
    }

    #[test]
    fn texts_cannot_pose_as_attributes() {
        let text = "fill=\"#111111\" stroke-width='15' <b>";
        let shown = written(|svg| svg.text(&Text { text, title: Some("a & b"), bold: true, ..of_size(130.0) }, (1, 2)));
        assert_eq!(
            shown,
            "<text x=\"1\" y=\"2\" dy=\"0.5ex\" font-size=\"130\" font-weight=\"bold\"><title>a &amp; b</title>\
             fill=&quot;#111111&quot; stroke-width=&apos;15&apos; &lt;b&gt;</text>\n"
        );
        let group = written(|svg| svg.open_group(&[("value", "\"1\" > 0".into()), ("name", "b".into())]));
        assert_eq!(group, "<g data-value=\"&quot;1&quot; &gt; 0\" data-name=\"b\">");
    }

    #[test]
    fn a_turned_text_turns_around_its_place() {
        let turned = Text { turn: Some(-41.26), anchor: HPos::Center, ..of_size(FONT_SIZE) };
        let expect =
            "<text x=\"7\" y=\"9\" dy=\"0.5ex\" text-anchor=\"middle\" transform=\"rotate(-41.3 7 9)\">memory</text>\n";
        assert_eq!(written(|svg| svg.text(&turned, (7, 9))), expect);
    }
}
