//! Rows of images with captions.

use crate::display::Show;
use crate::display::html::{escape, heading, printable};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use warpbook_data::png;
use warpbook_lab::{Error, Result};

/// Encodes an image as a PNG file in base64, for a page's `data:` address.
pub(crate) fn encoded(shape: [usize; 3], pixels: &[u8]) -> Result<String> {
    Ok(STANDARD.encode(png(shape, pixels).map_err(|e| Error::Setting(e.to_string()))?))
}

/// Rows of images with captions.
///
/// ```
/// use warpbook::ImageRows;
///
/// let grey = |value| vec![value; 4];
/// let rows = ImageRows::new("Two shades", [1, 2, 2], [vec![("dark", grey(40)), ("light", grey(200))]])?;
/// # let _ = rows;
/// # Ok::<(), warpbook::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ImageRows {
    heading: String,
    /// Captions with PNG files in base64.
    rows: Vec<Vec<(String, String)>>,
}

impl ImageRows {
    /// Creates rows of (caption, pixels), where pixels are u8 `[channels][height][width]` of `shape`.
    ///
    /// # Errors
    /// If the images are neither grey nor in colour, or the number of an image's pixels does not match the shape.
    pub fn new<C: Into<String>>(
        heading: impl Into<String>,
        shape: [usize; 3],
        rows: impl IntoIterator<Item = Vec<(C, Vec<u8>)>>,
    ) -> Result<Self> {
        let one = |(caption, pixels): (C, Vec<u8>)| Ok((caption.into(), encoded(shape, &pixels)?));
        let row = |row: Vec<(C, Vec<u8>)>| row.into_iter().map(one).collect::<Result<_>>();
        Ok(Self { heading: heading.into(), rows: rows.into_iter().map(row).collect::<Result<_>>()? })
    }
}

impl Show for ImageRows {
    fn html(&self) -> String {
        let cell = |(caption, png): &(String, String)| {
            let caption = escape(caption);
            format!(
                "<figure style=\"display:inline-block;flex:0 0 5.4em;width:5.4em\"><img src=\"data:image/png;base64,{png}\" alt=\"{caption}\" \
                 style=\"width:100%\">\
                 <figcaption>{caption}</figcaption></figure>"
            )
        };
        let row = |row: &Vec<(String, String)>| {
            let cells: String = row.iter().map(cell).collect();
            format!("<div class=\"wb-images\" style=\"flex-wrap:nowrap;overflow-x:auto\">{cells}</div>")
        };
        format!("{}{}", heading(&self.heading), self.rows.iter().map(row).collect::<String>())
    }

    fn text(&self) -> String {
        let row = |row: &Vec<(String, String)>| {
            let captions: Vec<String> = row.iter().map(|(caption, _)| printable(caption)).collect();
            captions.join(" | ")
        };
        let rows: Vec<String> = self.rows.iter().map(row).collect();
        format!("{}\n{}", printable(&self.heading), rows.join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pixels_and_captions_are_those_that_were_given() {
        let pixels: Vec<u8> = (0..12).map(|i| i * 20).collect();
        let rows = [vec![("<a>", pixels.clone()), ("b", vec![7; 12])], vec![("c", vec![9; 12])]];
        let rows = ImageRows::new("Some & others", [3, 2, 2], rows).unwrap();
        let html = rows.html();
        assert_eq!((html.matches("<figure").count(), html.matches("class=\"wb-images\"").count()), (3, 2));
        assert!(html.contains("Some &amp; others") && html.contains("&lt;a&gt;") && !html.contains("<a>"));
        let encoded = html.split("base64,").nth(1).unwrap().split('"').next().unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), STANDARD.decode(encoded).unwrap()).unwrap();
        assert_eq!(warpbook_data::fit_image(file.path(), [3, 2, 2], warpbook_data::Fit::Whole).unwrap().pixels, pixels);
        assert_eq!(Show::text(&rows), "Some & others\n<a> | b\nc");
        let wrong = ImageRows::new("x", [3, 2, 2], [vec![("a", vec![0; 11])]]).unwrap_err().to_string();
        assert!(wrong.contains("there are 11 bytes"), "{wrong}");
    }
}
