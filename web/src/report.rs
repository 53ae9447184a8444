//! Charts that a reader has chosen, with notes, to be printed or saved.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use warpbook_charts::Chart;
use warpbook_record::json::{self, quoted};

/// More charts than anyone reads.
pub const MAX_ITEMS: usize = 40;

/// A chosen chart.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Item {
    /// The chart's heading.
    pub title: String,
    /// What it shows, in a sentence.
    pub description: String,
    /// The picture as a file, on white. It is shown as an image, in which nothing runs.
    pub svg: String,
    /// What the reader writes to it, in Markdown.
    pub note: String,
}

/// The reader's report.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
pub struct Report {
    /// Its heading; empty is "Report".
    pub title: String,
    /// The charts, in order.
    pub items: Vec<Item>,
}

impl Report {
    /// Its heading.
    pub fn heading(&self) -> &str {
        if self.title.trim().is_empty() { "Report" } else { self.title.trim() }
    }

    /// Adds a chart at the end; one that is there already, or one too many, is not added.
    ///
    /// # Errors
    /// A sentence for the page's reader.
    pub fn add(&mut self, chart: &Chart) -> Result<(), String> {
        let svg = on_white(chart);
        if self.items.iter().any(|i| i.svg == svg) {
            return Err("The chart is in the report already.".into());
        }
        if self.items.len() >= MAX_ITEMS {
            return Err(format!("A report has at most {MAX_ITEMS} charts."));
        }
        let (title, description) = (chart.title.clone(), chart.description.clone());
        self.items.push(Item { title, description, svg, note: String::new() });
        Ok(())
    }

    /// Moves a chart by so many places; beyond the ends it stays.
    pub fn shift(&mut self, at: usize, by: isize) {
        if let Some(to) = at.checked_add_signed(by).filter(|to| *to < self.items.len() && at < self.items.len()) {
            self.items.swap(at, to);
        }
    }

    /// As the browser keeps it.
    pub fn to_json(&self) -> String {
        let item = |i: &Item| {
            let [title, description, svg, note] = [&i.title, &i.description, &i.svg, &i.note].map(|t| quoted(t));
            format!(r#"{{"title":{title},"description":{description},"svg":{svg},"note":{note}}}"#)
        };
        let items: Vec<String> = self.items.iter().map(item).collect();
        format!(r#"{{"title":{},"items":[{}]}}"#, quoted(&self.title), items.join(","))
    }

    /// What [`Report::to_json`] wrote; `None` of anything else.
    pub fn from_json(text: &str) -> Option<Self> {
        json::read(text).ok()
    }

    /// As Markdown, with the pictures inside as data addresses.
    pub fn markdown(&self) -> String {
        let mut out = format!("# {}\n", plain(self.heading()));
        for item in &self.items {
            out += &format!(
                "\n## {}\n\n![{}]({})\n",
                plain(&item.title),
                plain(&item.description),
                data_address(&item.svg)
            );
            if !item.note.trim().is_empty() {
                out += &format!("\n{}\n", item.note.trim());
            }
        }
        out
    }
}

/// The chart's picture as a file in light colours, whatever the reader's system has.
pub fn on_white(chart: &Chart) -> String {
    chart.svg.standalone().replace("@media (prefers-color-scheme:dark)", "@media not all")
}

/// An SVG as an address that needs nothing else.
pub fn data_address(svg: &str) -> String {
    format!("data:image/svg+xml;base64,{}", STANDARD.encode(svg))
}

/// A text of a record as Markdown that says the same: on one line, with nothing in it that has a meaning.
fn plain(text: &str) -> String {
    let mut out = String::new();
    for c in text.split_whitespace().collect::<Vec<_>>().join(" ").chars() {
        if "\\`*_{}[]()<>#|!~&$".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open::tests::sample_run;
    use warpbook_charts::{Quantity, ladder};

    fn charts() -> [Chart; 2] {
        let run = sample_run();
        let problem = run.main_problem().unwrap();
        [Quantity::Time, Quantity::SpeedUp].map(|q| ladder(&run, problem, q).unwrap())
    }

    #[test]
    fn charts_are_added_once_and_moved() {
        let (mut report, charts) = (Report::default(), charts());
        for chart in &charts {
            report.add(chart).unwrap();
            assert!(report.add(chart).unwrap_err().contains("already"));
        }
        let titles = |r: &Report| r.items.iter().map(|i| i.description.clone()).collect::<Vec<_>>();
        let before = titles(&report);
        report.shift(0, 1);
        assert_eq!(titles(&report), [before[1].clone(), before[0].clone()]);
        for (at, by) in [(1, 1), (0, -1), (9, -1), (usize::MAX, 1)] {
            report.shift(at, by);
        }
        assert_eq!(titles(&report), [before[1].clone(), before[0].clone()]);
        let one = report.items[0].clone();
        report.items = (0..MAX_ITEMS).map(|i| Item { svg: i.to_string(), ..one.clone() }).collect();
        assert!(report.add(&charts[0]).unwrap_err().contains("at most"));
    }

    #[test]
    fn markdown_has_the_picture_and_the_note_and_no_markup_of_a_record() {
        let mut report = Report { title: "My <b>report</b>\nx".into(), ..Report::default() };
        report.add(&charts()[0]).unwrap();
        report.items[0].title = "](x) <script> # `a`".into();
        report.items[0].note = "  *Mine*, as I wrote it.\n".into();
        let text = report.markdown();
        assert!(
            text.starts_with("# My \\<b\\>report\\</b\\> x\n\n## \\]\\(x\\) \\<script\\> \\# \\`a\\`\n\n!["),
            "{text}"
        );
        assert!(text.contains("](data:image/svg+xml;base64,") && text.ends_with("\n*Mine*, as I wrote it.\n"));
        assert!(
            report.items[0].svg.contains("@media not all") && !report.items[0].svg.contains("prefers-color-scheme")
        );
        assert_eq!(Report::default().markdown(), "# Report\n");
    }

    #[test]
    fn a_report_is_kept_as_text() {
        let mut report = Report::default();
        report.add(&charts()[0]).unwrap();
        assert_eq!(Report::from_json(&report.to_json()), Some(report));
    }
}
