//! The emulator's counts as a table for the source.

use std::collections::BTreeMap;
use warpbook_charts::{Table, words};
use warpbook_record::{Emulated, LineCounts};

/// A column of counts: its title, and its cell for a line.
type Column = (&'static str, fn(&LineCounts) -> String);

/// Returns a count as text; empty if the line has nothing of the kind, of which there are `all`.
fn count(all: u64, n: u64) -> String {
    if all == 0 { String::new() } else { n.to_string() }
}

const COLUMNS: [Column; 12] = [
    ("requests", |line| count(line.requests, line.requests)),
    ("sectors", |line| count(line.requests, line.sectors)),
    ("sectors, at least", |line| count(line.requests, line.ideal_sectors)),
    ("bytes", |line| count(line.global_bytes(), line.global_bytes())),
    ("shared requests", |line| count(line.shared_requests, line.shared_requests)),
    ("wavefronts", |line| count(line.wavefronts, line.wavefronts)),
    ("wavefronts, at least", |line| count(line.wavefronts, line.ideal_wavefronts)),
    ("shared bytes", |line| count(line.shared_bytes, line.shared_bytes)),
    ("local bytes", |line| count(line.local_bytes, line.local_bytes)),
    ("atomics", |line| count(line.atomics, line.atomics)),
    ("lanes on one address", |line| number(line.mean_on_one_address())),
    ("lanes of 32", |line| number(line.mean_lanes())),
];

fn number(mean: Option<f64>) -> String {
    mean.map_or_else(String::new, |mean| words::significant(mean, 3))
}

/// Returns the lines of a kernel that access memory or diverge, with their text; `None` if there are none. Columns without a count are left out, such as the
/// wavefronts of a kernel without shared memory.
pub(in crate::display) fn counts(emulated: &Emulated, sources: &BTreeMap<String, String>) -> Option<Table> {
    let text = |line: &LineCounts| {
        let at = usize::try_from(line.line).ok()?.checked_sub(1)?;
        Some(sources.get(&line.file)?.lines().nth(at)?.trim().to_owned())
    };
    let is_shown =
        |line: &&LineCounts| line.requests + line.wavefronts + line.local_bytes + line.divergent_branches > 0;
    let lines: Vec<&LineCounts> = emulated.lines.iter().filter(is_shown).collect();
    let has_text = lines.iter().any(|line| text(line).is_some_and(|text| !text.is_empty()));
    let used: Vec<&Column> =
        COLUMNS.iter().filter(|(_, cell)| lines.iter().any(|line| !cell(line).is_empty())).collect();
    let titles = ["line"].into_iter().chain(has_text.then_some("source")).chain(used.iter().map(|(title, _)| *title));
    let row = |line: &&LineCounts| {
        let place = format!("{}:{}", line.file.rsplit('/').next().unwrap_or_default(), line.line);
        let source = has_text.then(|| text(line).unwrap_or_default());
        [place].into_iter().chain(source).chain(used.iter().map(|(_, cell)| cell(line))).collect()
    };
    let shown = Table { headers: titles.map(str::to_owned).collect(), rows: lines.iter().map(row).collect() };
    (!lines.is_empty()).then_some(shown)
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
        assert_eq!(shown.rows[0], ["mine.cu:2", "y[i] = x[i];", "3", "48", "12", "", "", "24.0"]);
        assert_eq!(shown.rows[1], ["mine.cu:9", "", "", "", "", "8", "4", "24.0"]);
        let without_shared = Emulated { lines: vec![line(2, 3, 0)], ..Emulated::default() };
        let shown = counts(&without_shared, &sources).unwrap();
        assert_eq!(shown.headers, ["line", "source", "requests", "sectors", "sectors, at least", "lanes of 32"]);
        assert_eq!(shown.rows[0], ["mine.cu:2", "y[i] = x[i];", "3", "48", "12", "24.0"]);
        assert!(counts(&Emulated::default(), &sources).is_none());
    }

    #[test]
    fn requests_bytes_by_level_and_lanes_on_one_address_have_columns_where_there_are_any() {
        let line = LineCounts {
            file: "a.cu".into(),
            line: 1,
            requests: 2,
            sectors: 8,
            ideal_sectors: 8,
            ..LineCounts::default()
        };
        let atomic = LineCounts { line: 2, atomics: 4, lanes_on_one_address: 10, bytes: 256, ..line.clone() };
        let shared =
            LineCounts { line: 3, requests: 0, wavefronts: 6, ideal_wavefronts: 6, shared_requests: 5, ..line.clone() };
        let shared = LineCounts { shared_bytes: 640, ..shared };
        let local = LineCounts { line: 4, requests: 0, local_bytes: 128, ..line.clone() };
        let shown = |lines: &[&LineCounts]| {
            let lines = lines.iter().map(|line| (*line).clone()).collect();
            counts(&Emulated { lines, ..Emulated::default() }, &BTreeMap::new()).unwrap()
        };
        let all = shown(&[&line, &atomic, &shared, &local]);
        let cell = |row: usize, title: &str| {
            all.rows[row][all.headers.iter().position(|header| header == title).unwrap()].clone()
        };
        assert_eq!([cell(1, "atomics"), cell(1, "lanes on one address"), cell(1, "bytes")], ["4", "2.50", "256"]);
        assert_eq!([cell(2, "shared requests"), cell(2, "shared bytes"), cell(2, "requests")], ["5", "640", ""]);
        assert_eq!([cell(3, "local bytes"), cell(3, "bytes")], ["128", ""]);
        // In a record that is older than these counts, their columns are missing.
        assert_eq!(shown(&[&line]).headers, ["line", "requests", "sectors", "sectors, at least"]);
    }
}
