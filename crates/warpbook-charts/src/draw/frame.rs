//! The frame of a chart: title, subtitle and notes.

use crate::draw::canvas::{Canvas, Drawn, Font, MARGIN, line_height};
use crate::draw::chart::{Chart, ChartError};
use crate::draw::options::is_narrow;
use crate::draw::svg::Svg;
use crate::draw::table::Table;
use crate::draw::text;

/// Largest number of entries in a ladder, a legend or a list; the table has all of them.
pub(crate) const MAX_ENTRIES: usize = 48;

/// Title, subtitle and notes around a chart's picture.
pub(crate) struct Frame {
    /// Width in CSS pixels.
    pub(crate) width: f64,
    pub(crate) title: String,
    /// Text below the title: device, work and policy.
    pub(crate) subtitle: String,
    pub(crate) description: String,
    /// Remarks below the picture.
    pub(crate) notes: Vec<String>,
    pub(crate) table: Table,
}

impl Frame {
    /// Draws a picture of a given height between the title and the notes; the drawing function receives the y of its top.
    pub(crate) fn draw(
        mut self,
        height: f64,
        picture: impl FnOnce(&Canvas<'_>, f64) -> Drawn,
    ) -> Result<Chart, ChartError> {
        for text in [&mut self.title, &mut self.subtitle, &mut self.description].into_iter().chain(&mut self.notes) {
            *text = text::clean(text);
        }
        let room = self.width - 2.0 * MARGIN;
        let (heads, tails) = if is_narrow(self.width) { (4, 8) } else { (2, 3) };
        let lines = |text: &str, font: Font, most| text::wrap(text, room, font.size, font.bold, most).len() as f64;
        let title_height = lines(&self.title, Font::TITLE, heads) * line_height(Font::TITLE);
        let subtitle_height = lines(&self.subtitle, Font::NOTE, heads) * line_height(Font::NOTE);
        let top = MARGIN + title_height + subtitle_height + 10.0;
        let note_heights: Vec<f64> =
            self.notes.iter().map(|n| lines(n, Font::SMALL, tails) * line_height(Font::SMALL)).collect();
        let notes_at = top + height + if self.notes.is_empty() { 0.0 } else { 8.0 };
        let total = (notes_at + note_heights.iter().sum::<f64>() + MARGIN).ceil();
        let size = (self.width as u32, total as u32);

        let body = Canvas::draw(self.width, size, |canvas| {
            let first = MARGIN + line_height(Font::TITLE) / 2.0;
            canvas.wrapped(&self.title, room, heads, (MARGIN, first), Font::TITLE)?;
            let second = MARGIN + title_height + line_height(Font::NOTE) / 2.0 + 2.0;
            canvas.wrapped(&self.subtitle, room, heads, (MARGIN, second), Font::NOTE)?;
            picture(canvas, top)?;
            let mut y = notes_at + line_height(Font::SMALL) / 2.0;
            for (note, h) in self.notes.iter().zip(&note_heights) {
                canvas.wrapped(note, room, tails, (MARGIN, y), Font::SMALL)?;
                y += h;
            }
            Ok(())
        })?;
        let svg = Svg::new(&body, size, &self.title, &self.description);
        Ok(Chart { title: self.title, description: self.description, svg, table: self.table })
    }
}
