//! Pictures of how many threads add up one sum.

use super::{BLUE, GREEN, GREY, VERMILLION, WARP, counted};
use crate::prelude::*;
use warpbook_charts::ChartError;
use warpbook_charts::diagram::{Diagram, Matrix, Sign, Timeline};

/// Numbers of lanes that can be drawn.
const LANES: [usize; 4] = [2, 4, 8, 16];

/// Returns each lane's value after each exchange, starting with a row of the initial values: lane l begins with l + 1.
fn exchanged(lanes: usize, partner: impl Fn(usize, usize) -> Option<usize>) -> Vec<Vec<Option<usize>>> {
    let mut steps = vec![(1..=lanes).map(Some).collect::<Vec<Option<usize>>>()];
    let mut offset = lanes / 2;
    while offset > 0 {
        let last = &steps[steps.len() - 1];
        let next = (0..lanes).map(|lane| Some(last[lane]? + last[partner(lane, offset)?]?)).collect();
        steps.push(next);
        offset /= 2;
    }
    steps
}

fn drawn(
    lanes: usize,
    [title, call, said, step_name]: [&str; 4],
    partner: impl Fn(usize, usize) -> Option<usize>,
) -> std::result::Result<Chart, ChartError> {
    if !LANES.contains(&lanes) {
        return Err(ChartError::NothingToDraw("Choose 2, 4, 8 or 16 lanes.".into()));
    }
    let steps = exchanged(lanes, &partner);
    let names: Vec<String> = (0..lanes).map(|lane| format!("lane {lane}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut tree = Timeline::new(&names);
    let mut diagram = Diagram::new(title)
        .subtitle(call)
        .describe(said)
        .table(["after", "values of the lanes"])
        .note(&format!("A warp of {WARP} lanes does the same in 5 exchanges, with offsets 16, 8, 4, 2 and 1."));
    for (step, values) in steps.iter().enumerate() {
        let (from, offset) = (3.0 * step as f64, lanes >> step);
        for (lane, value) in values.iter().enumerate() {
            let Some(value) = value else { continue };
            let (tone, label) = if step == 0 { (BLUE, "own value") } else { (GREEN, "sum") };
            tree = tree.span(lane, (from, from + 1.4), tone, &value.to_string(), label);
            if step > 0
                && let Some(other) = partner(lane, offset)
            {
                tree = tree.link((other, from - 1.6), (lane, from));
            }
        }
        let shown: Vec<String> = values.iter().map(|v| v.map_or("–".to_owned(), |v| v.to_string())).collect();
        let name = if step == 0 { "nothing".to_owned() } else { format!("{step_name} {offset}") };
        diagram = diagram.figures([name, shown.join(" ")]);
    }
    diagram.put(tree).draw()
}

/// Draws a reduction tree: at each step the lower half of the lanes that are left adds the values of the upper half. Lane 0 ends with the sum; lane l begins
/// with l + 1.
///
/// # Errors
/// [`ChartError::NothingToDraw`] if there are not 2, 4, 8 or 16 lanes.
pub fn reduction_tree(lanes: usize) -> std::result::Result<Chart, ChartError> {
    let steps = lanes.checked_ilog2().unwrap_or(0);
    let said =
        format!("A tree of {steps} steps adds up {lanes} values; half of the lanes that worked stop at each step.");
    drawn(
        lanes,
        [
            &format!("A reduction tree: {lanes} values in {}", counted(steps as usize, "step")),
            "if (lane < offset) sum += the value of lane + offset",
            &said,
            "the step with distance",
        ],
        |lane, offset| (lane < offset).then_some(lane + offset),
    )
}

/// Draws the exchanges of `__shfl_xor_sync`: every lane adds its partner's value, so that all lanes end with the sum; lane l begins with l + 1.
///
/// # Errors
/// [`ChartError::NothingToDraw`] if there are not 2, 4, 8 or 16 lanes.
pub fn butterfly(lanes: usize) -> std::result::Result<Chart, ChartError> {
    let steps = lanes.checked_ilog2().unwrap_or(0);
    let said = format!("In {steps} exchanges every one of {lanes} lanes gets the sum of all values.");
    drawn(
        lanes,
        [
            &format!("Every lane gets the sum: {lanes} lanes in {}", counted(steps as usize, "exchange")),
            "sum += __shfl_xor_sync(0xffffffff, sum, offset)",
            &said,
            "the exchange by",
        ],
        |lane, offset| Some(lane ^ offset),
    )
}

/// Draws how a grid adds up an array: each thread its own elements, then the warp, the block and the grid, each with fewer numbers than the one before.
///
/// # Errors
/// [`ChartError::NothingToDraw`] if the launch is empty, or its blocks are not whole warps.
pub fn sum_of_a_grid(blocks: usize, threads: usize, n: usize) -> std::result::Result<Chart, ChartError> {
    if blocks == 0 || threads == 0 || !threads.is_multiple_of(WARP) {
        return Err(ChartError::NothingToDraw("Choose at least one block, of a multiple of 32 threads.".into()));
    }
    let warps = threads / WARP;
    let numbers = |name: &str, count: usize, tone: usize| {
        let shown = count.min(64);
        Matrix::new(name, shown.min(8), shown.div_ceil(8))
            .cell(10.0, 10.0)
            .shade(0..8, 0..8, tone, "")
            .caption(&counted(count, "number"))
    };
    Diagram::new("A sum is a hierarchy: thread, warp, block, grid")
        .subtitle(&format!("{n} elements, {} of {}", counted(blocks, "block"), counted(threads, "thread")))
        .describe(&format!(
            "{n} elements become {} sums of threads, {} sums of warps, {blocks} sums of blocks and one sum.",
            blocks * threads,
            blocks * warps
        ))
        .row("in each block")
        .put(numbers("its elements", n.div_ceil(blocks), GREY))
        .put(Sign::arrow("each thread adds its own in a register"))
        .put(numbers("of threads", threads, BLUE))
        .put(Sign::arrow("5 exchanges in each warp"))
        .put(numbers("of warps", warps, GREEN))
        .put(Sign::arrow("shared memory, one barrier"))
        .put(numbers("of the block", 1, VERMILLION))
        .row("in the grid")
        .put(numbers("of blocks", blocks, VERMILLION))
        .put(Sign::arrow("a second kernel, or the last block, in a fixed order"))
        .put(numbers("the sum", 1, GREY))
        .table(["sums of", "how many"])
        .figures(["threads".to_owned(), (blocks * threads).to_string()])
        .figures(["warps".to_owned(), (blocks * warps).to_string()])
        .figures(["blocks".to_owned(), blocks.to_string()])
        .draw()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_ends_with_the_sum_in_lane_0_and_a_butterfly_in_all() {
        let tree = reduction_tree(8).unwrap();
        assert_eq!(tree.table.rows.last().unwrap()[1], "36 – – – – – – –");
        assert_eq!(tree.table.rows[1], ["the step with distance 4", "6 8 10 12 – – – –"]);
        let all = butterfly(8).unwrap();
        assert_eq!(all.table.rows.last().unwrap(), &["the exchange by 1", "36 36 36 36 36 36 36 36"]);
        assert!(reduction_tree(5).is_err() && butterfly(0).is_err());
    }

    #[test]
    fn each_stage_of_a_grid_s_sum_has_fewer_numbers() {
        let chart = sum_of_a_grid(4, 256, 10_000).unwrap();
        let counts: Vec<&str> = chart.table.rows.iter().map(|row| &*row[1]).collect();
        assert_eq!(counts, ["1024", "32", "4"]);
        assert!(sum_of_a_grid(4, 100, 10_000).is_err());
    }
}
