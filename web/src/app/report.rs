//! The reader's report: charts are put into it from wherever they are shown, and it outlives a reload.

use super::App;
use crate::browser;
use crate::format;
use crate::library::Entry;
use crate::report::{Report, data_address, on_white};
use std::rc::Rc;
use warpbook_charts::Chart;
use warpbook_charts::words::counted;

const KEPT: &str = "report";

/// What may happen to it, and to a chart on its way out.
pub enum Act {
    /// Show it.
    Show,
    /// Add this chart.
    Add(Rc<Chart>),
    /// Call it so.
    Title(String),
    /// Write this to the chart of that number.
    Note(usize, String),
    /// Move the chart of that number by so many places.
    Shift(usize, isize),
    /// Take the chart of that number out.
    Remove(usize),
    /// Take everything out.
    Clear,
    /// Save it as an HTML file.
    Save,
    /// Print what is shown.
    Print,
}

/// The report of an earlier visit.
pub fn kept() -> Report {
    browser::remembered(KEPT).and_then(|text| Report::from_json(&text)).unwrap_or_default()
}

impl App {
    /// The records that charts are of where the reader is, each with its device and its date.
    fn source_of_charts(&self) -> String {
        let compared = self.ticked().into_iter().map(|(entry, _)| entry).filter(|_| self.link.compares());
        let of = |e: &Entry| {
            let all =
                [e.title.as_str(), &e.author, &e.device, &format::short_date(&e.created), &e.name].map(str::to_owned);
            all.into_iter().filter(|t| !t.is_empty()).collect::<Vec<_>>().join(", ")
        };
        let all: Vec<String> = self.chosen().into_iter().chain(compared).map(of).collect();
        if all.is_empty() { "Class board".into() } else { all.join("; ") }
    }

    /// Does it.
    pub(super) fn report(&mut self, act: Act) {
        let of = self.source_of_charts();
        let report = &mut self.report;
        match act {
            Act::Show => return self.link.show_report(),
            Act::Save => {
                browser::save("report.html", "text/html", &report.html());
                (self.said, self.told) = ("Saved report.html.".into(), true);
                return;
            }
            Act::Print => return browser::print(),
            Act::Add(chart) => {
                let link = if browser::is_local() { String::new() } else { browser::address() };
                let added = report.add(&chart, of, link);
                let count = report.items.len();
                self.said = match added {
                    Ok(()) => format!("Added to the report: {} now.", counted(count, "chart")),
                    Err(why) => why,
                };
                self.told = true;
            }
            Act::Title(title) => report.title = title.chars().take(200).collect(),
            Act::Note(at, note) => {
                if let Some(item) = report.items.get_mut(at) {
                    item.note = note.chars().take(20_000).collect();
                }
            }
            Act::Shift(at, by) => report.shift(at, by),
            Act::Remove(at) if at < report.items.len() => drop(report.items.remove(at)),
            Act::Remove(_) => {}
            Act::Clear => *report = Report::default(),
        }
        let text = if self.report.items.is_empty() { String::new() } else { self.report.to_json() };
        if !browser::remember(KEPT, &text) && !self.report_is_not_kept {
            self.report_is_not_kept = true;
            self.alert(
                "The report is too large for this browser to keep, or it keeps nothing: save it before you leave."
                    .into(),
            );
        }
    }
}

/// Saves a chart as PNG; gives what is to be said of it.
pub async fn save_png(chart: Rc<Chart>, name: String) -> String {
    let file = format!("{name}.png");
    let source = data_address(&on_white(&chart));
    if browser::save_png(&file, &source, chart.svg.size()).await {
        format!("Saved {file}.")
    } else {
        "This browser could not draw the chart; save it as SVG.".into()
    }
}
