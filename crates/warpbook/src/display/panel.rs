use super::html::{STYLE, escape};
use super::{Show, printable};

/// Several values in a row or a column, shown as one value, since a cell shows only one.
///
/// ```
/// use warpbook::prelude::*;
/// let row = Panel::row([&"one", &Panel::column([&"two", &"three"])]);
/// assert_eq!(row.text(), "one\n\ntwo\n\nthree");
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Panel {
    column: bool,
    parts: Vec<(String, String)>,
}

impl Panel {
    /// Places values side by side; they wrap if there is no room.
    #[must_use]
    pub fn row<const N: usize>(values: [&dyn Show; N]) -> Self {
        Self::new(false, &values)
    }

    /// Places values below each other.
    #[must_use]
    pub fn column<const N: usize>(values: [&dyn Show; N]) -> Self {
        Self::new(true, &values)
    }

    /// Adds one more value to the panel.
    #[must_use]
    pub fn and(mut self, value: &dyn Show) -> Self {
        self.parts.push((value.html(), value.text()));
        self
    }

    /// Returns the panel as a self-contained web page.
    #[must_use]
    pub fn page(&self, title: &str) -> String {
        format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; style-src 'unsafe-inline'\">\
             <title>{}</title><style>:root{{color-scheme:light dark}}body{{max-width:75em;margin:1em auto;padding:0 1em}}\
             </style></head>\n<body class=\"wb\">{STYLE}{}</body></html>\n",
            escape(title),
            self.html()
        )
    }

    fn new(column: bool, values: &[&dyn Show]) -> Self {
        Self { column, parts: values.iter().map(|v| (v.html(), v.text())).collect() }
    }
}

impl Show for Panel {
    fn html(&self) -> String {
        let parts: String = self.parts.iter().map(|(html, _)| format!("<div>{html}</div>")).collect();
        format!("<div class=\"wb-panel{}\">{parts}</div>", if self.column { " wb-column" } else { "" })
    }

    fn text(&self) -> String {
        printable(&self.parts.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>().join("\n\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_different_types_stand_together() {
        let error: Result<String, warpbook_lab::Error> = Err(warpbook_lab::Error::Setting("no".into()));
        let panel = Panel::row([&"a <b>", &error, &Panel::column([&"c"])]).and(&"d");
        assert_eq!(panel.text(), "a <b>\n\nno\n\nc\n\nd");
        let html = panel.html();
        assert!(html.starts_with("<div class=\"wb-panel\"><div><p>a &lt;b&gt;</p></div>"), "{html}");
        assert!(html.contains("wb-error") && html.contains("wb-column"));
        assert_eq!(html.matches("<div").count(), html.matches("</div").count());
    }

    #[test]
    fn a_page_asks_for_nothing_from_outside() {
        let page = Panel::column([&"x"]).page("</title><script>");
        assert!(!page.contains("<script") && !page.contains("src=") && !page.contains("href="));
        assert!(page.contains("default-src 'none'"));
    }
}
