//! Messages about the reader's report, which collects charts from any view and survives a reload.

use super::messages::ReportMsg;
use super::state::App;
use crate::browser;
use crate::library::Entry;
use crate::report::Report;
use crate::text::format;
use warpbook_charts::words::counted;

const KEPT: &str = "report";

/// Loads the report of an earlier visit.
pub fn kept() -> Report {
    browser::remembered(KEPT).and_then(|text| Report::from_json(&text)).unwrap_or_default()
}

impl App {
    /// Describes the records of the charts that are shown, each with its device and date.
    fn source_of_charts(&self) -> String {
        let compared = self.ticked().into_iter().map(|(entry, _)| entry).filter(|_| self.link.compares());
        let source = |e: &Entry| {
            let all =
                [e.title.as_str(), &e.author, &e.device, &format::short_date(&e.created), &e.name].map(str::to_owned);
            all.into_iter().filter(|t| !t.is_empty()).collect::<Vec<_>>().join(", ")
        };
        let all: Vec<String> = self.chosen().into_iter().chain(compared).map(source).collect();
        if all.is_empty() { "Class board".into() } else { all.join("; ") }
    }

    /// Handles a message about the report.
    pub(super) fn update_report(&mut self, msg: ReportMsg) {
        let source = self.source_of_charts();
        let report = &mut self.report;
        match msg {
            ReportMsg::Show => return self.link.show_report(),
            ReportMsg::Save => {
                browser::save("report.html", "text/html", &report.html());
                return self.notices.tell("Saved report.html.");
            }
            ReportMsg::Print => return browser::print(),
            ReportMsg::Add(chart) => {
                let link = if browser::is_local() { String::new() } else { browser::address() };
                let added = report.add(&chart, source, link);
                let count = report.items.len();
                self.notices.tell(match added {
                    Ok(()) => format!("Added to the report: {} now.", counted(count, "chart")),
                    Err(why) => why,
                });
            }
            ReportMsg::Title(title) => report.title = title.chars().take(200).collect(),
            ReportMsg::Note(at, note) => {
                if let Some(item) = report.items.get_mut(at) {
                    item.note = note.chars().take(20_000).collect();
                }
            }
            ReportMsg::Shift(at, by) => report.shift(at, by),
            ReportMsg::Remove(at) if at < report.items.len() => drop(report.items.remove(at)),
            ReportMsg::Remove(_) => {}
            ReportMsg::Clear => *report = Report::default(),
        }
        let text = if self.report.items.is_empty() { String::new() } else { self.report.to_json() };
        if !browser::remember(KEPT, &text) && !self.report_is_not_kept {
            self.report_is_not_kept = true;
            self.notices.alert(
                "The report is too large for this browser to keep, or it keeps nothing: save it before you leave."
                    .into(),
            );
        }
    }
}
