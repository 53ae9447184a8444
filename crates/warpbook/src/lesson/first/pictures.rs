//! Pictures of a warp's reads, of layouts and of branches.

use crate::figures;
use crate::prelude::*;
use warpbook_charts::ChartError;
use warpbook_charts::diagram::{Diagram, Matrix};

/// Number of lanes in a warp.
const WARP: usize = 32;
/// Sizes of a word, a sector and a line of memory in bytes.
const WORD: usize = 4;
const SECTOR: usize = 32;
const LINE: usize = 128;
/// Maximum number of rows in a picture.
const ROWS: usize = 12;

/// Draws which words of memory the 32 lanes of a warp read at once, and how many 32-byte sectors the read touches. `word` returns the word that a lane reads.
///
/// # Errors
/// If the chart cannot be drawn.
pub fn warp_reads(title: &str, word: impl Fn(usize) -> usize) -> Result<Chart, ChartError> {
    let words: Vec<usize> = (0..WARP).map(word).collect();
    let mut sectors: Vec<usize> = words.iter().map(|w| w * WORD / SECTOR).collect();
    sectors.sort_unstable();
    sectors.dedup();
    let lines = (words.iter().max().copied().unwrap_or(0) * WORD / LINE + 1).min(ROWS);
    let per_line = LINE / WORD;
    let memory = |line: usize, column: usize| line * per_line + column;
    let fetched = |at: usize| sectors.binary_search(&(at * WORD / SECTOR)).is_ok();
    let matrix = Matrix::new("memory: a row is a line of 128 bytes", lines, per_line)
        .cell(20.0, 18.0)
        .fill("read by a lane", |l, c| words.contains(&memory(l, c)).then_some(0))
        .fill("fetched with its sector, not read", |l, c| {
            (fetched(memory(l, c)) && !words.contains(&memory(l, c))).then_some(3)
        })
        .write(|l, c| words.iter().position(|w| *w == memory(l, c)).map_or_else(String::new, |lane| lane.to_string()))
        .rule(0, SECTOR / WORD);
    let share = (WARP * WORD) as f64 / (sectors.len() * SECTOR) as f64;
    let wide = words.iter().any(|w| w / per_line >= lines);
    let note = if wide { format!("Only the first {lines} lines are drawn.") } else { String::new() };
    Diagram::new(&format!("{title}: {} sectors, {} of the bytes used", sectors.len(), figures::percent(share)))
        .describe("A number is the lane that reads the word. A sector of 32 bytes is the least that memory delivers.")
        .put(matrix)
        .note(&note)
        .draw()
}

/// Draws an array of structures with three fields and a structure of three arrays, both in the order in which memory stores them.
///
/// # Errors
/// If the chart cannot be drawn.
pub fn layouts() -> Result<Chart, ChartError> {
    const FIELDS: [&str; 3] = ["x", "y", "z"];
    let part = |name: &str, field: &dyn Fn(usize) -> usize, index: &dyn Fn(usize) -> usize| {
        let mut matrix =
            Matrix::new(name, 1, 24).cell(26.0, 22.0).write(|_, c| format!("{}{}", FIELDS[field(c)], index(c)));
        for (i, label) in ["x, which the kernel reads", "y", "z"].iter().enumerate() {
            matrix = matrix.fill(label, |_, c| (field(c) == i).then_some(i));
        }
        matrix
    };
    Diagram::new("Fields that are read together lie together")
        .describe("Above, three fields of each of eight points follow each other; below, each field has its own array.")
        .put(part("array of structures", &|c| c % 3, &|c| c / 3))
        .row("")
        .put(part("structure of arrays", &|c| c / 8, &|c| c % 8))
        .draw()
}

/// Draws a warp at a branch. `path` returns the path of a lane; the paths run one after another, while the lanes on other paths wait.
///
/// # Errors
/// If the chart cannot be drawn.
pub fn turns(title: &str, path: impl Fn(usize) -> usize) -> Result<Chart, ChartError> {
    let paths: Vec<usize> = (0..WARP).map(path).collect();
    let mut kinds = paths.clone();
    kinds.sort_unstable();
    kinds.dedup();
    let rows = kinds.len().min(ROWS);
    let mut matrix = Matrix::new("lanes of a warp", rows, WARP)
        .cell(20.0, 18.0)
        .fill("active", |turn, lane| (paths[lane] == kinds[turn]).then_some(kinds[turn] % 8))
        .write(|turn, lane| if paths[lane] == kinds[turn] { lane.to_string() } else { String::new() });
    for (turn, kind) in kinds.iter().take(rows).enumerate() {
        matrix = matrix.at_row(turn, &format!("path {kind}"));
    }
    let mean = WARP as f64 / kinds.len() as f64;
    let turns = figures::counted(kinds.len(), "turn");
    Diagram::new(&format!("{title}: {turns}, {} of 32 lanes active on average", figures::significant(mean, 3)))
        .describe("A row is a turn, in which the warp runs one path. Lanes without colour wait.")
        .put(matrix)
        .draw()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_say_in_their_title_what_they_show() {
        let check = |picture: Result<Chart, ChartError>, expect: &str| {
            let chart = picture.unwrap();
            assert!(chart.title.contains(expect), "{}", chart.title);
            assert!(!chart.description.is_empty(), "{expect}");
        };
        check(warp_reads("neighbours", |lane| lane), "4 sectors, 100");
        check(warp_reads("eight apart", |lane| 8 * lane), "32 sectors");
        check(layouts(), "lie together");
        check(turns("by parity", |lane| lane % 2), "2 turns, 16.0 of 32 lanes");
        check(turns("by half", |lane| lane / 32), "1 turn, 32.0 of 32 lanes");
    }
}
