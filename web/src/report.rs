//! A report: charts chosen by the reader, with notes, to print or save.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use warpbook_charts::{Chart, escape};

/// The maximum number of charts in a report.
pub const MAX_ITEMS: usize = 40;

/// A chart in a report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    /// The chart's heading.
    pub title: String,
    /// One sentence on what the chart shows.
    pub description: String,
    /// The drawing as an SVG file on white. It is shown as an image, in which no script runs.
    pub svg: String,
    /// The reader's note on the chart.
    pub note: String,
    /// The chart's record, with device and date.
    #[serde(default)]
    pub source: String,
    /// The page's address when the chart was added; empty if nobody else could open it.
    #[serde(default)]
    pub link: String,
}

/// The reader's report.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Report {
    /// The report's heading; an empty one becomes "Report".
    pub title: String,
    /// The charts, in order.
    pub items: Vec<Item>,
}

impl Report {
    /// Returns the report's heading.
    pub fn heading(&self) -> &str {
        if self.title.trim().is_empty() { "Report" } else { self.title.trim() }
    }

    /// Appends a chart with its source and link. A duplicate is refused, and so is a chart beyond the limit.
    ///
    /// # Errors
    /// Returns an error, a sentence for the page's reader, if the chart is a duplicate or the report is full.
    pub fn add(&mut self, chart: &Chart, source: String, link: String) -> Result<(), String> {
        let svg = on_white(chart);
        if self.items.iter().any(|i| i.svg == svg) {
            return Err("The chart is in the report already.".into());
        }
        if self.items.len() >= MAX_ITEMS {
            return Err(format!("A report has at most {MAX_ITEMS} charts."));
        }
        let (title, description) = (chart.title.clone(), chart.description.clone());
        self.items.push(Item { title, description, svg, note: String::new(), source, link });
        Ok(())
    }

    /// Moves a chart by `by` places, but not past either end.
    pub fn shift(&mut self, at: usize, by: isize) {
        if let Some(to) = at.checked_add_signed(by).filter(|to| *to < self.items.len() && at < self.items.len()) {
            self.items.swap(at, to);
        }
    }

    /// Serialises the report for the browser's storage.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads the output of [`Report::to_json`]; returns `None` for anything else.
    pub fn from_json(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// Returns the report as a self-contained HTML file with its pictures, to open and print in any browser. It has no
    /// scripts and loads nothing.
    pub fn html(&self) -> String {
        let heading = escape(self.heading());
        let mut out = format!("{HEAD}<title>{heading}</title>\n<h1>{heading}</h1>\n");
        for item in &self.items {
            let [title, description, source, link] =
                [&item.title, &item.description, &item.source, &item.link].map(|t| escape(t));
            let note = escape(item.note.trim());
            let picture = data_address(&item.svg);
            out += &format!("<section>\n<h2>{title}</h2>\n<img src=\"{picture}\" alt=\"{description}\">\n");
            if !note.is_empty() {
                out += &format!("<p class=\"note\">{note}</p>\n");
            }
            let link = if link.is_empty() { link } else { format!(" <a href=\"{link}\">{link}</a>") };
            out += &format!("<p class=\"source\">{source}{link}</p>\n</section>\n");
        }
        out
    }
}

/// The start of a report's file. Its style keeps each chart on one page when printed.
const HEAD: &str = "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
    <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">\n\
    <meta name=\"viewport\" content=\"width=device-width\">\n<style>body{max-width:48rem;margin:2rem auto;padding:0 1rem;font:16px/1.5 system-ui,sans-serif}\
    img{max-width:100%;height:auto}h2{font-size:1.1rem}.note{white-space:pre-wrap}.source{color:#59626b;font-size:.875rem;overflow-wrap:anywhere}\
    @media print{img{max-height:19cm;width:auto}img,h2{break-inside:avoid;break-after:avoid}}</style>\n";

/// Returns a chart's drawing as an SVG file in light colours, whatever the reader's theme.
pub fn on_white(chart: &Chart) -> String {
    chart.svg.standalone().replace("@media (prefers-color-scheme:dark)", "@media not all")
}

/// Returns an SVG as a self-contained data address.
pub fn data_address(svg: &str) -> String {
    format!("data:image/svg+xml;base64,{}", STANDARD.encode(svg))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::sample_run;
    use warpbook_charts::{Quantity, draw};

    fn charts() -> [Chart; 2] {
        let run = sample_run();
        let problem = run.main_problem().unwrap();
        [Quantity::Time, Quantity::SpeedUp].map(|q| draw().ladder(&run, problem, q).unwrap())
    }

    fn add(report: &mut Report, chart: &Chart) -> Result<(), String> {
        report.add(chart, "Regression, H200, 2026-11-21".into(), "https://example.org/?record=a&tab=b".into())
    }

    #[test]
    fn charts_are_added_once_and_moved() {
        let (mut report, charts) = (Report::default(), charts());
        for chart in &charts {
            add(&mut report, chart).unwrap();
            assert!(add(&mut report, chart).unwrap_err().contains("already"));
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
        assert!(add(&mut report, &charts[0]).unwrap_err().contains("at most"));
    }

    #[test]
    fn a_file_has_the_picture_its_source_and_the_note_and_no_markup_of_a_record() {
        let mut report = Report { title: "My <b>report</b>".into(), ..Report::default() };
        add(&mut report, &charts()[0]).unwrap();
        report.items[0].title = "\"><script>".into();
        report.items[0].note = "  Mine, as\nI wrote it.\n".into();
        let text = report.html();
        assert!(!text.contains("<script") && !text.contains("<b>"), "{text}");
        assert!(
            text.contains("<h1>My &lt;b&gt;report&lt;/b&gt;</h1>")
                && text.contains("<p class=\"note\">Mine, as\nI wrote it.</p>")
        );
        assert!(text.contains("<img src=\"data:image/svg+xml;base64,"));
        assert!(
            text.contains("Regression, H200, 2026-11-21 <a href=\"https://example.org/?record=a&amp;tab=b\">"),
            "{text}"
        );
        assert!(
            report.items[0].svg.contains("@media not all") && !report.items[0].svg.contains("prefers-color-scheme")
        );
        assert!(Report::default().html().ends_with("<h1>Report</h1>\n"));
    }

    #[test]
    fn a_report_that_was_kept_before_sources_were_is_read() {
        let old = r#"{"title":"t","items":[{"title":"a","description":"b","svg":"c","note":"d"}]}"#;
        assert_eq!(Report::from_json(old).unwrap().items[0].source, "");
    }

    #[test]
    fn a_report_is_kept_as_text() {
        let mut report = Report::default();
        add(&mut report, &charts()[0]).unwrap();
        assert_eq!(Report::from_json(&report.to_json()), Some(report));
    }
}
