//! The display of an X-ray: its chart, its figures, and notes on omitted parts.

use crate::display::Show;
use crate::display::html::{note, picture, scroll};
use crate::display::printable;
use warpbook_lab::XrayRun;
use warpbook_record::Xray;

impl Show for XrayRun {
    fn html(&self) -> String {
        match self.chart() {
            Ok(chart) => {
                let notes: String = self.run.notes.iter().map(|n| note(n)).collect();
                format!("<figure>{}{}</figure>{notes}", picture(&chart), scroll(&chart.table))
            }
            Err(why) => note(&why.to_string()),
        }
    }

    fn text(&self) -> String {
        match self.chart() {
            Ok(chart) => {
                let unmarked = self.run.xrays.iter().filter_map(Xray::unmarked_in_words);
                let not_kept = self.run.xrays.iter().filter_map(Xray::not_kept_in_words);
                let notes = self.run.notes.iter().cloned().chain(not_kept).chain(unmarked);
                let notes: Vec<String> = notes.map(|n| printable(&n)).collect();
                format!(
                    "{}\n{}\n\n{}\n\n{}",
                    printable(&chart.title),
                    printable(&chart.description),
                    chart.table.text(),
                    notes.join("\n")
                )
            }
            Err(why) => why.to_string(),
        }
    }
}
