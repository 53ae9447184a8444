//! The emulator's counts as a table for the source.

use crate::display::html::table;
use std::collections::BTreeMap;
use warpbook_charts::{Table, words};
use warpbook_record::{Emulated, LineCounts};

/// Returns the lines of a kernel that access memory or diverge, with their text; `None` if there are none.
pub(in crate::display) fn counts(emulated: &Emulated, sources: &BTreeMap<String, String>) -> Option<Table> {
    let text = |line: &LineCounts| {
        let at = usize::try_from(line.line).ok()?.checked_sub(1)?;
        Some(sources.get(&line.file)?.lines().nth(at)?.trim().to_owned())
    };
    // Without a request, a line's sectors are blank instead of 0.
    let count = |all: u64, n: u64| if all == 0 { String::new() } else { n.to_string() };
    let is_shown = |line: &&LineCounts| line.requests + line.wavefronts + line.divergent_branches > 0;
    let row = |line: &LineCounts| {
        [
            format!("{}:{}", line.file.rsplit('/').next().unwrap_or_default(), line.line),
            text(line).unwrap_or_default(),
            count(line.requests, line.sectors),
            count(line.requests, line.ideal_sectors),
            count(line.wavefronts, line.wavefronts),
            count(line.wavefronts, line.ideal_wavefronts),
            line.mean_lanes().map_or_else(String::new, |lanes| words::significant(lanes, 3)),
        ]
    };
    let rows: Vec<_> = emulated.lines.iter().filter(is_shown).map(row).collect();
    let headers =
        ["line", "source", "sectors", "sectors, at least", "wavefronts", "wavefronts, at least", "lanes of 32"];
    let mut shown = table(headers, rows);
    // Empty columns are removed: a kernel without shared memory has no wavefronts, a kernel that uses only shared memory
    // has no sectors, and some sources are not known here.
    for column in (1..6).rev().filter(|column| shown.rows.iter().all(|row| row[*column].is_empty())).collect::<Vec<_>>()
    {
        shown.headers.remove(column);
        shown.rows.iter_mut().for_each(|row| _ = row.remove(column));
    }
    (!shown.rows.is_empty()).then_some(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_shown_with_their_text_and_counts() {
        let line = |number, requests, wavefronts| LineCounts {
            file: "live/mine.cu".into(),
            line: number,
            instructions: 4,
            active_lanes: 96,
            requests,
            sectors: 16 * requests,
            ideal_sectors: 4 * requests,
            wavefronts,
            ideal_wavefronts: wavefronts / 2,
            ..LineCounts::default()
        };
        let emulated = Emulated { lines: vec![line(1, 0, 0), line(2, 3, 0), line(9, 0, 8)], ..Emulated::default() };
        let sources = BTreeMap::from([("live/mine.cu".to_owned(), "int a;\n  y[i] = x[i];\n".to_owned())]);
        let shown = counts(&emulated, &sources).unwrap();
        assert_eq!(shown.rows[0], ["mine.cu:2", "y[i] = x[i];", "48", "12", "", "", "24.0"]);
        assert_eq!(shown.rows[1], ["mine.cu:9", "", "", "", "8", "4", "24.0"]);
        let without_shared = Emulated { lines: vec![line(2, 3, 0)], ..Emulated::default() };
        let shown = counts(&without_shared, &sources).unwrap();
        assert_eq!(shown.headers, ["line", "source", "sectors", "sectors, at least", "lanes of 32"]);
        assert_eq!(shown.rows[0], ["mine.cu:2", "y[i] = x[i];", "48", "12", "24.0"]);
        assert!(counts(&Emulated::default(), &sources).is_none());
    }
}
