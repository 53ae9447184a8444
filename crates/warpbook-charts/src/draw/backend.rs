use crate::draw::text;
use plotters::prelude::SVGBackend;
use plotters_backend::{
    BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingBackend, DrawingErrorKind, FontStyle,
};
use std::io;

/// What plotters' SVG backend multiplies a font's size with, on the way to what it calls its size.
pub(crate) const FONT_SCALE: f64 = 1.24;

/// plotters' SVG backend with text metrics of our own: on a page plotters would measure in the DOM, and elsewhere with
/// whatever fonts there are, so that the same record would give different charts.
pub(crate) struct Metered<'a>(SVGBackend<'a>);

impl<'a> Metered<'a> {
    pub(crate) fn new(buffer: &'a mut String, size: (u32, u32)) -> Self {
        Self(SVGBackend::with_string(buffer, size))
    }
}

type Done = Result<(), DrawingErrorKind<io::Error>>;

impl DrawingBackend for Metered<'_> {
    type ErrorType = io::Error;

    fn get_size(&self) -> (u32, u32) {
        self.0.get_size()
    }

    fn ensure_prepared(&mut self) -> Done {
        self.0.ensure_prepared()
    }

    fn present(&mut self) -> Done {
        self.0.present()
    }

    fn draw_pixel(&mut self, point: BackendCoord, color: BackendColor) -> Done {
        self.0.draw_pixel(point, color)
    }

    fn draw_line<S: BackendStyle>(&mut self, from: BackendCoord, to: BackendCoord, style: &S) -> Done {
        self.0.draw_line(from, to, style)
    }

    fn draw_rect<S: BackendStyle>(&mut self, from: BackendCoord, to: BackendCoord, style: &S, fill: bool) -> Done {
        self.0.draw_rect(from, to, style, fill)
    }

    fn draw_path<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(&mut self, path: I, style: &S) -> Done {
        self.0.draw_path(path, style)
    }

    fn draw_circle<S: BackendStyle>(&mut self, center: BackendCoord, radius: u32, style: &S, fill: bool) -> Done {
        self.0.draw_circle(center, radius, style, fill)
    }

    fn fill_polygon<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(&mut self, path: I, style: &S) -> Done {
        self.0.fill_polygon(path, style)
    }

    fn draw_text<S: BackendTextStyle>(&mut self, text: &str, style: &S, at: BackendCoord) -> Done {
        self.0.draw_text(text, style, at)
    }

    fn estimate_text_size<S: BackendTextStyle>(
        &self,
        text: &str,
        style: &S,
    ) -> Result<(u32, u32), DrawingErrorKind<io::Error>> {
        let size = style.size() / FONT_SCALE;
        let width = text::width(text, size, matches!(style.style(), FontStyle::Bold));
        Ok((width.ceil() as u32, size.ceil() as u32))
    }
}
