//! Formats counts as a text table next to the source.

use super::{Counts, LineCounts};
use std::fmt::Write;

/// A column of the table: its title, and the function that formats a cell.
type Column = (&'static str, fn(&LineCounts) -> String);

fn over_ideal(count: u64, ideal: u64) -> String {
    if count == 0 { String::new() } else { format!("{count}/{ideal}") }
}

fn number(count: u64) -> String {
    if count == 0 { String::new() } else { count.to_string() }
}

const COLUMNS: [Column; 8] = [
    ("lanes", |line| if line.instructions == 0 { String::new() } else { format!("{:.1}", line.mean_lanes()) }),
    ("requests", |line| number(line.global_requests)),
    ("sectors/ideal", |line| over_ideal(line.global_sectors, line.global_ideal)),
    ("wavefronts/ideal", |line| over_ideal(line.shared_wavefronts, line.shared_ideal)),
    ("parted/branches", |line| over_ideal(line.divergent_branches, line.branches)),
    ("on one address", |line| match line.atomics {
        0 => String::new(),
        atomics => format!("{:.1}", mean(line.lanes_on_one_address, atomics)),
    }),
    ("shared bytes", |line| number(line.shared_bytes)),
    ("local bytes", |line| number(line.local_bytes)),
];

#[allow(clippy::cast_precision_loss)]
fn mean(sum: u64, count: u64) -> f64 {
    sum as f64 / count as f64
}

impl Counts {
    /// Returns a table of a file's lines with their counts. Leaves out columns in which every count is zero.
    #[must_use]
    pub fn table(&self, file: &str, source: &str) -> String {
        let empty = LineCounts::default();
        let lines: Vec<(u32, &str)> = (1..).zip(source.lines()).collect();
        let rows: Vec<&LineCounts> = lines.iter().map(|(at, _)| self.line(file, *at).unwrap_or(&empty)).collect();
        let columns = COLUMNS.iter().map(|(title, cell)| {
            let cells: Vec<String> = rows.iter().map(|row| cell(row)).collect();
            let width = cells.iter().map(String::len).chain([title.len()]).max().unwrap_or(0);
            (*title, width, cells)
        });
        let columns: Vec<_> = columns.filter(|(.., cells)| cells.iter().any(|cell| !cell.is_empty())).collect();
        let mut text = String::from("line");
        columns.iter().for_each(|(title, width, _)| _ = write!(text, "  {title:>width$}"));
        for (row, (at, source)) in lines.iter().enumerate() {
            _ = write!(text, "\n{at:>4}");
            columns.iter().for_each(|(_, width, cells)| _ = write!(text, "  {:>width$}", cells[row]));
            _ = write!(text, "  | {source}");
        }
        text.push('\n');
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_stand_next_to_their_lines() {
        let line = LineCounts {
            file: "k.cu".into(),
            line: 2,
            instructions: 2,
            lanes: 33,
            global_requests: 1,
            global_sectors: 32,
            global_ideal: 4,
            ..LineCounts::default()
        };
        let table = Counts { lines: vec![line], ..Counts::default() }.table("k.cu", "void k() {\n    y = x;\n}\n");
        let want = "line  lanes  requests  sectors/ideal\n   1                                  | void k() {\n   2   16.5         1           32/4  |     y = x;\n   3                                  | }\n";
        assert_eq!(table, want);
    }
}
