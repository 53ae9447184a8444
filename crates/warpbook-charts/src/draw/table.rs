use crate::draw::text::{clean, columns, escape};

/// The figures of a chart, with units in the headers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Table {
    /// Names of the columns.
    pub headers: Vec<String>,
    /// Cells, row by row; missing values are empty.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new<H: Into<String>>(headers: impl IntoIterator<Item = H>) -> Self {
        Self { headers: headers.into_iter().map(Into::into).collect(), rows: Vec::new() }
    }

    pub(crate) fn push<C: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = C>) {
        self.rows.push(cells.into_iter().map(|c| clean(c.as_ref())).collect());
    }

    /// Returns the table as CSV (RFC 4180, lines ended by CR LF).
    ///
    /// A cell that a spreadsheet would take for a formula is preceded by an apostrophe; numbers are left alone.
    #[must_use]
    pub fn csv(&self) -> String {
        let mut out = String::new();
        for row in std::iter::once(&self.headers).chain(&self.rows) {
            for (i, cell) in row.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                out.push_str(&csv_cell(cell));
            }
            out.push_str("\r\n");
        }
        out
    }

    /// Returns the table as fixed-pitch text: aligned columns, right-aligned figures, no final newline.
    #[must_use]
    pub fn text(&self) -> String {
        let all: Vec<Vec<String>> = std::iter::once(&self.headers)
            .chain(&self.rows)
            .map(|row| row.iter().map(|c| clean(c)).collect())
            .collect();
        let count = all.iter().map(Vec::len).max().unwrap_or(0);
        let width = |cell: &str| cell.chars().map(columns).sum::<usize>();
        let widths: Vec<usize> =
            (0..count).map(|i| all.iter().filter_map(|r| r.get(i)).map(|c| width(c)).max().unwrap_or(0)).collect();
        let numeric: Vec<bool> = (0..count).map(|i| self.is_numeric(i)).collect();
        let line = |row: &[String]| {
            let mut out = String::new();
            for (i, want) in widths.iter().enumerate() {
                let cell = row.get(i).map_or("", String::as_str);
                let pad = " ".repeat(want.saturating_sub(width(cell)));
                let gap = if i > 0 { "  " } else { "" };
                let (before, after) = if numeric[i] { (pad.as_str(), "") } else { ("", pad.as_str()) };
                out.extend([gap, before, cell, after]);
            }
            out.truncate(out.trim_end().len());
            out
        };
        let mut lines: Vec<String> = all.iter().map(|row| line(row)).collect();
        let rule: Vec<String> = widths.iter().map(|w| "-".repeat(*w)).collect();
        lines.insert(1, line(&rule));
        lines.join("\n")
    }

    /// Returns the table as HTML with escaped texts: `<table class="wb-table">`; cells of numbers have the class
    /// `wb-num`.
    #[must_use]
    pub fn html(&self) -> String {
        let count = self.rows.iter().map(Vec::len).chain([self.headers.len()]).max().unwrap_or(0);
        let numeric: Vec<bool> = (0..count).map(|i| self.is_numeric(i)).collect();
        let class = |i: usize| if numeric[i] { " class=\"wb-num\"" } else { "" };
        let mut out = String::from("<table class=\"wb-table\"><thead><tr>");
        for (i, h) in self.headers.iter().enumerate() {
            out.push_str(&format!("<th scope=\"col\"{}>{}</th>", class(i), escape(&clean(h))));
        }
        out.push_str("</tr></thead><tbody>");
        for row in &self.rows {
            out.push_str("<tr>");
            for (i, cell) in row.iter().enumerate() {
                out.push_str(&format!("<td{}>{}</td>", class(i), escape(&clean(cell))));
            }
            out.push_str("</tr>");
        }
        out.push_str("</tbody></table>");
        out
    }

    /// Returns true if a column has only numbers and empty cells.
    fn is_numeric(&self, column: usize) -> bool {
        let mut cells = self.rows.iter().filter_map(|r| r.get(column)).filter(|c| !c.is_empty()).peekable();
        cells.peek().is_some() && cells.all(|c| is_number(c))
    }
}

fn is_number(cell: &str) -> bool {
    cell.parse::<f64>().is_ok()
}

fn csv_cell(cell: &str) -> String {
    // Spreadsheets skip leading white space, and also accept full-width characters.
    let first = cell.trim_start().chars().next();
    let formula = matches!(first, Some('=' | '+' | '-' | '@' | '＝' | '＋' | '－' | '＠'))
        || cell.starts_with(['\t', '\r', '\n']);
    let guarded = if formula && !is_number(cell) { format!("'{cell}") } else { cell.to_owned() };
    if guarded.contains([',', '"', '\r', '\n']) {
        return format!("\"{}\"", guarded.replace('"', "\"\""));
    }
    guarded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_is_quoted_and_harmless() {
        let check = |cell: &str, expect: &str| assert_eq!(csv_cell(cell), expect, "{cell:?}");
        check("plain", "plain");
        check("a,b", "\"a,b\"");
        check("say \"hi\"", "\"say \"\"hi\"\"\"");
        check("two\nlines", "\"two\nlines\"");
        check("=1+1", "'=1+1");
        check("+cmd|' /C calc'!A0", "'+cmd|' /C calc'!A0");
        check("@SUM(A1,B1)", "\"'@SUM(A1,B1)\"");
        check(" \t=1", "' \t=1");
        check("\tx", "'\tx");
        check("-1.5", "-1.5");
        check("-1.5e3", "-1.5e3");
        check("-1+2", "'-1+2");
        check("＝1", "'＝1");
        check("", "");
    }

    fn sample() -> Table {
        let mut t = Table::new(["rung", "time (ms)", "outcome"]);
        t.push(["02_fused", "4.25", ""]);
        t.push(["<b>世界</b>", "1234.5", "skipped: no \"GPU\""]);
        t
    }

    #[test]
    fn text_is_aligned() {
        let expect = "rung         time (ms)  outcome\n-----------  ---------  -----------------\n\
                      02_fused          4.25\n<b>世界</b>     1234.5  skipped: no \"GPU\"";
        assert_eq!(sample().text(), expect);
        assert_eq!(Table::default().text(), "\n");
    }

    #[test]
    fn html_is_escaped() {
        let html = sample().html();
        assert!(html.starts_with("<table class=\"wb-table\"><thead><tr><th scope=\"col\">rung</th>"));
        assert!(html.contains("<td>&lt;b&gt;世界&lt;/b&gt;</td><td class=\"wb-num\">1234.5</td>"));
        assert!(html.contains("no &quot;GPU&quot;"));
    }

    #[test]
    fn csv_lines_end_as_the_rfc_says() {
        assert!(sample().csv().starts_with("rung,time (ms),outcome\r\n02_fused,4.25,\r\n"));
    }
}
