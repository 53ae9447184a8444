//! Small pieces of HTML shared by all displays.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use warpbook_charts::{Chart, Table};

/// The colours are JupyterLab's, so that both of its themes look right; elsewhere they follow the text colour.
///
/// Styles only improve the look: JupyterLab and GitHub remove `<style>` and `<svg>` from outputs that the user has not
/// run. All content must be in texts and pictures.
pub(super) const STYLE: &str = "<style>\
.wb{font-family:var(--jp-content-font-family,system-ui,sans-serif);color:var(--jp-content-font-color1,inherit);line-height:1.45}\
.wb h4{margin:.6em 0 .3em;font-size:1.05em}\
.wb p{margin:.3em 0}\
.wb code,.wb pre{font-family:var(--jp-code-font-family,ui-monospace,monospace);font-size:.92em}\
.wb .wb-faint{opacity:.75}\
.wb .wb-scroll{overflow-x:auto;margin:.4em 0}\
.wb table.wb-table{border-collapse:collapse;font-size:.92em;margin:0;color:inherit;background:transparent}\
.wb table.wb-table th,.wb table.wb-table td{padding:.2em .7em;text-align:left;white-space:nowrap;background:transparent;\
border:0;border-bottom:1px solid var(--jp-border-color2,rgba(128,128,128,.35))}\
.wb table.wb-table th{font-weight:600}\
.wb table.wb-table .wb-num{text-align:right;font-variant-numeric:tabular-nums}\
.wb table.wb-table tr.wb-best td{font-weight:600}\
.wb table.wb-table tr.wb-out td{opacity:.75}\
.wb table.wb-table td.wb-why{white-space:normal;min-width:14em}\
.wb .wb-note,.wb .wb-error{border-left:4px solid var(--jp-warn-color1,#e0a000);padding:.35em .8em;margin:.5em 0;\
background:rgba(128,128,128,.1)}\
.wb .wb-error{border:1px solid var(--jp-error-color1,#d32f2f);border-left-width:4px}\
.wb .wb-error pre{margin:.4em 0;white-space:pre-wrap;overflow-wrap:anywhere;background:transparent;color:inherit}\
.wb .wb-panel{display:flex;flex-wrap:wrap;gap:1em;align-items:flex-start}\
.wb .wb-panel>div{flex:1 1 22em;min-width:0}\
.wb .wb-panel.wb-column{display:block}\
.wb figure{margin:.3em 0}\
.wb summary{cursor:pointer}\
.wb .wb-images{display:flex;flex-wrap:wrap;gap:.5em;margin:.4em 0}\
.wb .wb-images figure{margin:0;padding:4px;width:7.2em;border:1px solid var(--jp-border-color2,rgba(128,128,128,.35));\
border-radius:4px;text-align:center;font-size:.88em}\
.wb .wb-images figure.wb-wrong{border:2px dashed var(--jp-error-color1,#d32f2f);padding:3px}\
.wb .wb-images img{display:block;width:100%;height:auto;margin:0;image-rendering:pixelated}\
.wb .wb-images figcaption{overflow-wrap:anywhere}\
.wb .wb-images .wb-wrong strong{text-decoration:underline wavy var(--jp-error-color1,#d32f2f)}\
.wb pre.wb-code{margin:.3em 0;padding:.5em 0;overflow-x:auto;line-height:1.4;tab-size:4;white-space:pre;color:inherit;\
background:var(--jp-cell-editor-background,rgba(128,128,128,.08));border:1px solid var(--jp-border-color2,rgba(128,128,128,.35))}\
.wb .wb-n{opacity:.5;user-select:none}\
.wb .wb-add,.wb .wb-del{display:inline-block;min-width:100%}\
.wb .wb-add{background:rgba(46,160,67,.2)}\
.wb .wb-del{background:rgba(215,58,73,.16)}\
.wb .wb-c{color:var(--jp-mirror-editor-comment-color,#5f8f8f);font-style:italic}\
.wb .wb-s{color:var(--jp-mirror-editor-string-color,#c0504d)}\
.wb .wb-p{color:var(--jp-mirror-editor-meta-color,#9a6cc8)}\
.wb .wb-k{color:var(--jp-mirror-editor-keyword-color,#2e9b4f);font-weight:600}\
.wb .wb-t{color:var(--jp-mirror-editor-variable-3-color,#2e9b8f)}\
.wb .wb-b{color:var(--jp-mirror-editor-builtin-color,#4c8fd6)}\
.wb .wb-d{color:var(--jp-mirror-editor-number-color,#b8862b)}\
</style>";

/// Escapes text for elements and quoted attributes. Control characters other than line breaks and tabs become U+FFFD.
pub(super) fn escape(text: &str) -> String {
    warpbook_charts::escape(&printable(text))
}

/// Returns text that is safe for a terminal. Labels and names may come from other people's records and files:
/// characters that would move the cursor, change colours or reverse text become U+FFFD. Line breaks and tabs stay.
#[must_use]
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if is_unprintable(c) { '\u{fffd}' } else { c }).collect()
}

fn is_unprintable(c: char) -> bool {
    let bidi = matches!(c, '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}');
    bidi || (c.is_control() && c != '\n' && c != '\t')
}

/// Creates a table of these rows.
pub(super) fn table<const N: usize>(headers: [&str; N], rows: Vec<[String; N]>) -> Table {
    Table { headers: headers.map(str::to_owned).to_vec(), rows: rows.into_iter().map(|r| r.to_vec()).collect() }
}

/// Returns a paragraph that keeps the text's line breaks.
pub(super) fn paragraph(text: &str) -> String {
    format!("<p>{}</p>", escape(text).replace('\n', "<br>"))
}

/// Returns a chart as an `<img>`, which also works where `<svg>` elements are removed. Its alternative text is the
/// chart's title and description.
pub(super) fn picture(chart: &Chart) -> String {
    format!(
        "<img src=\"data:image/svg+xml;base64,{}\" width=\"{}\" alt=\"{}. {}\" style=\"max-width:100%;height:auto\">",
        STANDARD.encode(chart.svg.picture()),
        chart.svg.size().0,
        escape(&chart.title),
        escape(&chart.description)
    )
}

/// Returns the start of a line of code: its number, or another label.
pub(super) fn line_number(label: &str) -> String {
    format!("<span class=\"wb-n\">{label:>6}  </span>")
}

/// Returns a table in a box that scrolls on its own if the cell is narrow.
pub(super) fn scroll(table: &Table) -> String {
    format!("<div class=\"wb-scroll\">{}</div>", table.html())
}

/// Names with values, as a table without headings.
pub(super) struct Facts(Vec<(&'static str, String)>);

impl Facts {
    pub(super) fn new() -> Self {
        Self(Vec::new())
    }

    pub(super) fn add(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.0.push((name, value.into()));
        self
    }

    pub(super) fn maybe(self, name: &'static str, value: Option<impl Into<String>>) -> Self {
        match value {
            Some(value) => self.add(name, value),
            None => self,
        }
    }

    pub(super) fn html(&self) -> String {
        let row = |(name, value): &(&str, String)| {
            format!("<tr><th scope=\"row\">{}</th><td class=\"wb-why\">{}</td></tr>", escape(name), escape(value))
        };
        let rows: String = self.0.iter().map(row).collect();
        format!("<div class=\"wb-scroll\"><table class=\"wb-table\"><tbody>{rows}</tbody></table></div>")
    }

    pub(super) fn text(&self) -> String {
        let width = self.0.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        let line = |(name, value): &(&str, String)| format!("{name:width$}  {}", printable(value));
        self.0.iter().map(line).collect::<Vec<_>>().join("\n")
    }
}

pub(super) fn heading(text: &str) -> String {
    format!("<h4>{}</h4>", escape(text))
}

pub(super) fn note(text: &str) -> String {
    format!("<div class=\"wb-note\">{}</div>", escape(text))
}

pub(super) fn details(summary: &str, inner: &str) -> String {
    format!("<details><summary>{}</summary>{inner}</details>", escape(summary))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_text_is_escaped_everywhere() {
        let bad = "\"><img src=x onerror='a'>\u{1b}[2J\u{202e}";
        for html in [
            heading(bad),
            note(bad),
            details(bad, ""),
            Facts::new().add("n", bad).html(),
            scroll(&table([bad], vec![[bad.to_owned()]])),
        ] {
            assert!(!html.contains("<img") && !html.contains('\u{1b}') && !html.contains('\u{202e}'), "{html}");
        }
        assert!(!Facts::new().add("n", bad).text().contains('\u{1b}'));
    }

    #[test]
    fn the_style_has_no_fixed_background() {
        for value in STYLE.split("background:").skip(1) {
            let value = value.split([';', '}']).next().unwrap();
            assert!(value == "transparent" || value.starts_with("rgba(") || value.starts_with("var(--jp-"), "{value}");
        }
    }
}
