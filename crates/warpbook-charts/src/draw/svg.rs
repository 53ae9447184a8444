//! A finished picture, as an element of a page or as a file.

use crate::draw::backend::{FONT_SIZE, UNIT};
use crate::draw::text::{clean, escape};
use std::fmt;

const FONTS: &str =
    "system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue','Noto Sans','Liberation Sans',Arial,sans-serif";
const LIGHT: (&str, &str) = ("#1f2328", "#ffffff");
const DARK: (&str, &str) = ("#e6e6e6", "#16181c");

/// A chart as SVG without a background and with texts in `currentColor`, to be inlined in a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Svg {
    inline: String,
    /// Byte offset of the root element's content.
    content: usize,
    id: String,
    size: (u32, u32),
}

impl Svg {
    /// Returns the `<svg>` element, for a page.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.inline
    }

    /// Returns the `<svg>` element as a `String`.
    #[must_use]
    pub fn into_string(self) -> String {
        self.inline
    }

    /// Returns the width and height in CSS pixels.
    #[must_use]
    pub fn size(&self) -> (u32, u32) {
        self.size
    }

    /// Returns the chart as a file or for `<img>`, with its own size, background and colours, which follow
    /// `prefers-color-scheme`.
    #[must_use]
    pub fn standalone(&self) -> String {
        let (w, h) = self.size;
        let ((ink, paper), (dark_ink, dark_paper)) = (LIGHT, DARK);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{w}\" height=\"{h}\"{} color=\"{ink}\">\n\
             <style>svg{{color:{ink}}}.wb-paper{{fill:{paper}}}\
             @media (prefers-color-scheme:dark){{svg{{color:{dark_ink}}}.wb-paper{{fill:{dark_paper}}}}}</style>\n\
             <rect class=\"wb-paper\" width=\"100%\" height=\"100%\" fill=\"{paper}\"/>\n{}",
            common(&self.id, self.size),
            &self.inline[self.content..]
        )
    }

    /// Returns [`Self::standalone`] without the marks' data, for an `<img>` in a notebook, which has no tooltips.
    #[must_use]
    pub fn picture(&self) -> String {
        let file = self.standalone();
        let mut parts = file.split("<g data-");
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |picture, part| picture + "<g" + part.find('>').map_or("", |end| &part[end..]))
    }

    /// Puts the elements of a canvas of `size` CSS pixels into an `<svg>`; the title and the description are unescaped.
    pub(crate) fn new(body: &str, size: (u32, u32), title: &str, description: &str) -> Self {
        let (title, description) = (&clean(title), &clean(description));
        let id = format!("wb-{:016x}", fnv1a([title.as_str(), description.as_str(), body]));
        let root = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"wb-chart\" width=\"100%\"{} \
             style=\"max-width:{}px;height:auto\">\n",
            common(&id, size),
            size.0
        );
        let inline = format!(
            "{root}<title id=\"{id}-t\">{}</title>\n<desc id=\"{id}-d\">{}</desc>\n{body}</svg>\n",
            escape(title),
            escape(description)
        );
        Self { content: root.len(), inline, id, size }
    }
}

impl fmt::Display for Svg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.inline)
    }
}

fn common(id: &str, (w, h): (u32, u32)) -> String {
    let unit = UNIT as u32;
    format!(
        " viewBox=\"0 0 {} {}\" direction=\"ltr\" role=\"img\" aria-labelledby=\"{id}-t {id}-d\" font-family=\"{FONTS}\" \
         font-size=\"{FONT_SIZE}\" fill=\"currentColor\"",
        w * unit,
        h * unit
    )
}

/// Hashes texts to an id that differs between the charts of a page but is the same every time a chart is drawn.
fn fnv1a<'a>(parts: impl IntoIterator<Item = &'a str>) -> u64 {
    parts
        .into_iter()
        .flat_map(|p| p.bytes().chain([0]))
        .fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_the_file_without_the_facts_of_its_marks() {
        let facts = |open: &str| format!("{open}<rect x=\"1\" opacity=\"0.5\"/></g>\n</svg>\n");
        let svg = Svg::new("", (10, 10), "t", "d");
        let with = |body: String| Svg { inline: format!("{}{body}", &svg.inline[..svg.content]), ..svg.clone() };
        let told = with(facts("<g data-rung=\"a\" data-value=\"1 &gt; 0\"><g data-name=\"b\">"));
        assert_eq!(told.picture(), with(facts("<g><g>")).standalone());
        assert!(told.standalone().contains("data-rung") && told.picture().contains("prefers-color-scheme:dark"));
    }

    #[test]
    fn a_standalone_file_has_its_own_colours() {
        let svg = Svg::new("", (720, 300), "t", "d");
        assert!(svg.standalone().contains("prefers-color-scheme:dark"));
        assert!(svg.standalone().contains("width=\"720\" height=\"300\""));
        assert!(!svg.as_str().contains("prefers-color-scheme"));
        assert!(svg.as_str().contains("viewBox=\"0 0 7200 3000\""));
        assert_ne!(svg.id, Svg::new("", (720, 300), "u", "d").id);
    }
}
