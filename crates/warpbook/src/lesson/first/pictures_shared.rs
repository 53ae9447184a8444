//! Pictures of shared memory: halos, banks, a transpose, a scan.

use crate::figures;
use crate::prelude::*;
use warpbook_charts::ChartError;
use warpbook_charts::diagram::{Diagram, Matrix, Sign};

/// Number of banks of shared memory, each one word wide. A warp has the same number of lanes.
const BANKS: usize = 32;

/// Draws the tile of a block with a halo of `reach` elements on both sides.
///
/// # Errors
/// If the chart cannot be drawn.
pub fn halo(threads: usize, reach: usize) -> Result<Chart, ChartError> {
    let (threads, reach) = (threads.clamp(4, 24), reach.clamp(1, 4));
    let all = threads + 2 * reach;
    let own = reach..reach + threads;
    let tile = Matrix::new("tile in shared memory", 1, all)
        .cell(640.0 / all as f64, 22.0)
        .fill("an own element: each thread loads one", |_, c| own.contains(&c).then_some(0))
        .fill("halo: the first threads load one more on each side", |_, c| (!own.contains(&c)).then_some(1))
        .write(|_, c| c.to_string());
    Diagram::new(&format!("{threads} threads need {all} elements"))
        .describe(
            "A thread needs its element and its neighbours'. At the ends of the tile they belong to other blocks.",
        )
        .put(tile)
        .draw()
}

/// Draws the bank that each lane of a warp reads from if the lanes read down a column of a tile whose rows have `pitch` words.
///
/// # Errors
/// If the chart cannot be drawn.
pub fn banks(pitch: usize) -> Result<Chart, ChartError> {
    let bank = |lane: usize| lane * pitch % BANKS;
    let ways = (0..BANKS).map(|b| (0..BANKS).filter(|lane| bank(*lane) == b).count()).max().unwrap_or(0);
    let mut matrix = Matrix::new("a row is a lane, a column a bank", BANKS, BANKS)
        .cell(12.0, 8.0)
        .fill("the lane's word", |lane, b| (bank(lane) == b).then_some(if ways > 1 { 1 } else { 0 }));
    for b in (0..BANKS).step_by(8) {
        matrix = matrix.at_column(b, &format!("bank {b}"));
    }
    let passes = figures::counted(ways, "wavefront");
    Diagram::new(&format!("Rows of {pitch} words: a column takes {passes}"))
        .describe("A bank serves one word at a time, so lanes that meet in a bank take turns.")
        .put(matrix)
        .draw()
}

/// Draws a transpose through a tile: rows are read into shared memory, and the columns of shared memory are written as rows of the result.
///
/// # Errors
/// If the chart cannot be drawn.
pub fn through_a_tile() -> Result<Chart, ChartError> {
    let small = |name: &str| Matrix::new(name, 8, 8).cell(20.0, 20.0);
    Diagram::new("Both sides of the transpose go by rows")
        .describe(
            "A block reads a row of the matrix into its tile, and writes a column of the tile as a row of the result.",
        )
        .put(small("matrix").shade(2..3, 0..8, 0, "one warp's read"))
        .put(Sign::arrow("row into row"))
        .put(small("tile").shade(2..3, 0..8, 0, "one warp's read").tint(0..8, 5..6, 1, "one warp's write"))
        .put(Sign::arrow("column into row"))
        .put(small("result").tint(5..6, 0..8, 1, "one warp's write"))
        .draw()
}

/// Draws an inclusive scan of `n` ones, step by step, with a distance that doubles.
///
/// # Errors
/// If the chart cannot be drawn.
pub fn scan_steps(n: usize) -> Result<Chart, ChartError> {
    let n = n.clamp(2, 16).next_power_of_two();
    let mut values: Vec<usize> = (1..=n).collect();
    let mut diagram = Diagram::new(&format!("A scan of {n} values in {} steps", n.ilog2()))
        .describe("In each step a thread adds the value that lies twice as far to its left as in the step before.");
    let row = |name: &str, values: &[usize], from: usize| {
        Matrix::new(name, 1, n)
            .cell(640.0 / n as f64, 20.0)
            .fill("has just added", |_, i| (i >= from).then_some(0))
            .write(|_, i| values[i].to_string())
    };
    diagram = diagram.put(row("the values", &values, n));
    let mut distance = 1;
    while distance < n {
        values = (0..n).map(|i| values[i] + if i >= distance { values[i - distance] } else { 0 }).collect();
        diagram = diagram.row("").put(row(&format!("after distance {distance}"), &values, distance));
        distance *= 2;
    }
    diagram.draw()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_say_in_their_title_what_they_show() {
        let check = |picture: Result<Chart, ChartError>, expect: &str| {
            let chart = picture.unwrap();
            assert!(chart.title.contains(expect), "{}", chart.title);
            assert!(chart.svg.as_str().contains("<rect"), "{expect}");
        };
        check(halo(16, 2), "16 threads need 20 elements");
        check(banks(32), "32 wavefronts");
        check(banks(33), "1 wavefront");
        check(banks(34), "2 wavefronts");
        check(through_a_tile(), "transpose");
        check(scan_steps(8), "3 steps");
    }

    #[test]
    fn the_last_step_of_a_scan_has_the_sum() {
        let text = |picture: Result<Chart, ChartError>| picture.unwrap().svg.as_str().to_owned();
        assert!(text(scan_steps(8)).contains(">36<"));
    }
}
