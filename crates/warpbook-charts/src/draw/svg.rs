use crate::draw::text::{FIELD, FIELD_VALUE, GROUP_CLOSE, GROUP_OPEN, TITLE_CLOSE, TITLE_OPEN, TURNED, clean, escape};
use std::fmt::{self, Write};

/// Drawn in tenths of a CSS pixel, plotters' coordinates being whole numbers.
pub(crate) const UNIT: f64 = 10.0;
/// Placeholder for the text colour of whatever surrounds the chart; plotters wants an RGB.
pub(crate) const INK: (u8, u8, u8) = (0x01, 0x02, 0x03);
/// The size of most texts, said once, at the root.
const FONT_SIZE: f64 = 12.0 * UNIT;
/// The fonts are named once, at the root.
pub(crate) const FAMILY: &str = "sans-serif";
/// Added once, twice ... to a stroke's width: plotters has no dashes.
pub(crate) const DASH_STEP: u32 = 1000;
/// The dashes by number, in tenths of a pixel; the first is a solid line.
pub(crate) const DASHES: [&str; 7] = ["", "60 40", "20 35", "100 35 20 35", "130 45", "60 30 20 30 20 30", "35 30"];

const FONTS: &str =
    "system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue','Noto Sans','Liberation Sans',Arial,sans-serif";
const LIGHT: (&str, &str) = ("#1f2328", "#ffffff");
const DARK: (&str, &str) = ("#e6e6e6", "#16181c");

/// A chart as SVG, without a background and with texts in `currentColor`: to be put into a page as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Svg {
    inline: String,
    /// Where the root's content begins.
    content: usize,
    id: String,
    size: (u32, u32),
}

impl Svg {
    /// The `<svg>` element, for a page.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.inline
    }

    /// The same, owned.
    #[must_use]
    pub fn into_string(self) -> String {
        self.inline
    }

    /// Width and height that it is drawn for, in CSS pixels.
    #[must_use]
    pub fn size(&self) -> (u32, u32) {
        self.size
    }

    /// As a file, or for `<img>`: with its own size, background and colours, which follow `prefers-color-scheme`.
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

    /// [`Self::standalone`] for the `<img>` of a notebook, which cannot ask the marks of a chart anything: they come without the facts that the page's
    /// tooltips show.
    #[must_use]
    pub fn picture(&self) -> String {
        let file = self.standalone();
        let mut parts = file.split("<g data-");
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |picture, part| picture + "<g" + part.find('>').map_or("", |end| &part[end..]))
    }

    /// Finishes what plotters' backend wrote on a canvas of `size` CSS pixels; all texts are unescaped.
    pub(crate) fn finish(raw: &str, size: (u32, u32), title: &str, description: &str) -> Self {
        let (title, description) = (&clean(title), &clean(description));
        let mut body = String::with_capacity(raw.len());
        let mut lines = raw.lines().skip(1).filter(|l| *l != "</svg>");
        while let Some(line) = lines.next() {
            if line.starts_with("<text ") {
                // On one line: a page that keeps white space would show the line breaks.
                let (turn, text) = turned(lines.next().unwrap_or_default());
                if let Some(fields) = text.strip_prefix(GROUP_OPEN) {
                    group(fields, &mut body);
                    _ = lines.next();
                    continue;
                }
                if text.starts_with(GROUP_CLOSE) {
                    body.truncate(body.trim_end().len());
                    body.push_str("</g>\n");
                    _ = lines.next();
                    continue;
                }
                attributes(line, &mut body);
                if let Some(degrees) = turn
                    && body.ends_with('>')
                {
                    body.truncate(body.len() - 1);
                    let at = |name| value(line, name).unwrap_or("0");
                    _ = write!(body, " transform=\"rotate({degrees:.1} {} {})\">", at(" x=\""), at(" y=\""));
                }
                body.push_str(&content(text));
                body.push_str(lines.next().unwrap_or_default());
            } else {
                attributes(line, &mut body);
            }
            body.push('\n');
        }
        let body = with_joined_rows(&body);
        let id = format!("wb-{:016x}", fnv1a([title.as_str(), description.as_str(), body.as_str()]));
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

/// One line of the backend with the sentinels replaced. Only attributes are looked at: no text holds a bare quote.
fn attributes(line: &str, out: &mut String) {
    let ink = format!("#{:02X}{:02X}{:02X}", INK.0, INK.1, INK.2);
    let mut rest = line;
    while let Some(at) = rest.find("=\"") {
        let name_at = rest[..at].rfind(' ').unwrap_or(0);
        let name = rest[name_at..at].trim_start();
        let value_end = rest[at + 2..].find('"').map_or(rest.len(), |e| at + 2 + e);
        let value = &rest[at + 2..value_end];
        out.push_str(&rest[..name_at]);
        match (name, value) {
            // What is so by default.
            ("opacity", "1") | ("font-family", FAMILY) | ("text-anchor", "start") | ("stroke", "none") => {}
            // The root says it of most texts.
            ("fill", v) if v == ink => {}
            // The backend divides by 1.24 what was multiplied by it.
            ("font-size", v) => {
                let size = v.parse().unwrap_or(FONT_SIZE).round();
                if size != FONT_SIZE {
                    _ = write!(out, " font-size=\"{size}\"");
                }
            }
            ("stroke", v) if v == ink => _ = write!(out, " {name}=\"currentColor\""),
            ("stroke-width", v) => {
                let code: u32 = v.parse().unwrap_or(UNIT as u32);
                _ = write!(out, " stroke-width=\"{}\"", code % DASH_STEP);
                if let Some(dash) = DASHES.get((code / DASH_STEP) as usize).filter(|d| !d.is_empty()) {
                    _ = write!(out, " stroke-dasharray=\"{dash}\"");
                }
            }
            ("points", v) => _ = write!(out, " points=\"{}\"", v.trim_end()),
            _ => _ = write!(out, " {name}=\"{value}\""),
        }
        rest = rest.get(value_end + 1..).unwrap_or_default();
    }
    out.push_str(rest);
}

/// Rectangles of one row from which on they are joined, and tenths of a pixel by which one may overlap the one before it: then it does not matter which
/// is drawn first.
const ROW: usize = 8;
const OVERLAP: u32 = 3;

/// A rectangle of the body: its place and width, its row (`y` and height), and its paint as attributes. `None` for any other line.
fn rectangle(line: &str) -> Option<([u32; 2], [u32; 2], String)> {
    let attributes = line.strip_prefix("<rect ")?.strip_suffix("/>")?;
    let number = |name: &str| value(line, name)?.parse::<u32>().ok();
    let place = [number(" x=\"")?, number(" width=\"")?];
    let row = [number(" y=\"")?, number(" height=\"")?];
    let is_paint = |of: &&str| ["fill=", "opacity="].iter().any(|name| of.starts_with(name));
    let (paint, others): (Vec<&str>, Vec<&str>) = attributes.split(' ').partition(is_paint);
    (others.len() == 4).then(|| (place, row, paint.join(" ")))
}

/// Rectangles that follow each other in a row as a path for each paint, which takes a third of the text: an X-ray has thousands of them.
fn with_joined_rows(body: &str) -> String {
    let mut out = String::with_capacity(body.len());
    let mut lines = body.lines().peekable();
    while let Some(line) = lines.next() {
        let Some((place, row, paint)) = rectangle(line) else {
            out.push_str(line);
            out.push('\n');
            continue;
        };
        let mut end = place[0] + place[1];
        let (mut all, mut texts) = (vec![(place, paint)], vec![line]);
        while let Some(text) = lines.peek()
            && let Some((place, of, paint)) = rectangle(text)
            && of == row
            && place[0] + OVERLAP >= end
        {
            end = place[0] + place[1];
            all.push((place, paint));
            texts.extend(lines.next());
        }
        if all.len() < ROW {
            texts.iter().for_each(|text| _ = writeln!(out, "{text}"));
            continue;
        }
        let [y, height] = row;
        while let Some((_, paint)) = all.first().cloned() {
            let (same, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|(_, of)| *of == paint);
            _ = write!(out, "<path {paint} d=\"");
            same.iter().for_each(|([x, width], _)| _ = write!(out, "M{x} {y}h{width}v{height}h-{width}z"));
            out.push_str("\"/>\n");
            all = others;
        }
    }
    out
}

/// The beginning of a group of marks; the values are already escaped.
fn group(fields: &str, body: &mut String) {
    body.push_str("<g");
    for (name, value) in fields.split(FIELD).filter_map(|f| f.split_once(FIELD_VALUE)) {
        _ = write!(body, " data-{name}=\"{value}\"");
    }
    body.push('>');
}

/// The degrees that a text is turned by, and the text.
fn turned(line: &str) -> (Option<f64>, &str) {
    let Some((degrees, text)) = line.split_once(TURNED) else { return (None, line) };
    (degrees.parse().ok(), text)
}

/// An attribute's value in a line of the backend.
fn value<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    line.split_once(name)?.1.split('"').next()
}

/// The text of a `<text>`, already escaped, with the full form of an elided one as its tooltip.
fn content(line: &str) -> String {
    match line.strip_prefix(TITLE_OPEN).and_then(|l| l.split_once(TITLE_CLOSE)) {
        Some((full, shown)) => format!("<title>{full}</title>{shown}"),
        None => line.to_owned(),
    }
}

/// Ids must differ between the charts of a page and stay the same between two drawings of one.
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
    fn sentinels_become_colours_and_dashes() {
        let check = |line: &str, expect: &str| {
            let mut out = String::new();
            attributes(line, &mut out);
            assert_eq!(out, expect);
        };
        check(
            "<line opacity=\"1\" stroke=\"#010203\" stroke-width=\"1015\" x1=\"0\"/>",
            "<line stroke=\"currentColor\" stroke-width=\"15\" stroke-dasharray=\"60 40\" x1=\"0\"/>",
        );
        check("<rect opacity=\"0.15\" fill=\"#010203\" stroke=\"none\"/>", "<rect opacity=\"0.15\"/>");
        check("<polyline points=\"1,2 3,4 \"/>", "<polyline points=\"1,2 3,4\"/>");
    }

    #[test]
    fn rectangles_of_a_row_become_a_path_for_each_paint() {
        let rect = |x: u32, y: u32, fill: &str| {
            format!("<rect x=\"{x}\" y=\"{y}\" width=\"20\" height=\"23\" fill=\"{fill}\"/>\n")
        };
        let row = |y: u32, n: u32| {
            (0..n).map(|i| rect(20 * i, y, ["#111111", "#222222"][i as usize % 2])).collect::<String>()
        };
        let few = row(5, 7) + &row(30, 7) + "<g data-x=\"1\">" + &row(5, 1).replace('\n', "</g>\n");
        assert_eq!(with_joined_rows(&few), few);
        let path = |fill: &str, first: u32| {
            let parts: String = (0..4).map(|i| format!("M{} 5h20v23h-20z", first + 40 * i)).collect();
            format!("<path fill=\"{fill}\" d=\"{parts}\"/>\n")
        };
        let expect = |rest: &str| path("#111111", 0) + &path("#222222", 20) + rest;
        assert_eq!(with_joined_rows(&(row(5, 8) + "<text>a</text>\n")), expect("<text>a</text>\n"));
        assert_eq!(with_joined_rows(&(row(5, 8) + &row(30, 1))), expect(&row(30, 1)), "another row");
        let faded = row(5, 8).replace("fill=\"#222222\"", "opacity=\"0.5\" fill=\"#222222\"");
        assert!(with_joined_rows(&faded).contains("<path opacity=\"0.5\" fill=\"#222222\" d=\"M20 5h20"), "{faded}");
        let over_another = rect(0, 5, "#333333").replace("20", "200") + &row(5, 7);
        assert_eq!(with_joined_rows(&over_another), over_another, "drawn over the first");
        let outlined = row(5, 8).replace("/>", " stroke=\"#333333\"/>");
        assert_eq!(with_joined_rows(&outlined), outlined, "not only filled");
    }

    #[test]
    fn texts_cannot_pose_as_attributes() {
        let raw = "<svg>\n<text x=\"1\" font-family=\"sans-serif\">\nfill=&quot;#010203&quot; stroke-width=&quot;1015&quot;\n</text>\n</svg>\n";
        let svg = Svg::finish(raw, (10, 10), "<t>", "d & e");
        assert!(svg.as_str().contains("<text x=\"1\">fill=&quot;#010203&quot; stroke-width=&quot;1015&quot;</text>"));
        assert!(svg.as_str().contains("&lt;t&gt;</title>"));
        assert!(svg.as_str().contains("d &amp; e</desc>"));
    }

    #[test]
    fn a_turned_text_turns_around_its_place() {
        let raw = format!("<svg>\n<text x=\"7\" y=\"9\" dy=\"0.5ex\">\n-41.26{TURNED}memory\n</text>\n</svg>\n");
        let svg = Svg::finish(&raw, (10, 10), "t", "d");
        let expect = "<text x=\"7\" y=\"9\" dy=\"0.5ex\" transform=\"rotate(-41.3 7 9)\">memory</text>";
        assert!(svg.as_str().contains(expect), "{}", svg.as_str());
    }

    #[test]
    fn a_picture_is_the_file_without_the_facts_of_its_marks() {
        let facts = |open: &str| format!("<svg>\n{open}<rect x=\"1\" opacity=\"0.5\"/></g>\n</svg>\n");
        let svg = Svg::finish("<svg>\n</svg>\n", (10, 10), "t", "d");
        let with = |body: String| Svg { inline: format!("{}{body}", &svg.inline[..svg.content]), ..svg.clone() };
        let told = with(facts("<g data-rung=\"a\" data-value=\"1 &gt; 0\"><g data-name=\"b\">"));
        assert_eq!(told.picture(), with(facts("<g><g>")).standalone());
        assert!(told.standalone().contains("data-rung") && told.picture().contains("prefers-color-scheme:dark"));
    }

    #[test]
    fn a_standalone_file_has_its_own_colours() {
        let svg = Svg::finish("<svg>\n</svg>\n", (720, 300), "t", "d");
        assert!(svg.standalone().contains("prefers-color-scheme:dark"));
        assert!(svg.standalone().contains("width=\"720\" height=\"300\""));
        assert!(!svg.as_str().contains("prefers-color-scheme"));
        assert!(svg.as_str().contains("viewBox=\"0 0 7200 3000\""));
        assert_ne!(svg.id, Svg::finish("<svg>\n</svg>\n", (720, 300), "u", "d").id);
    }
}
