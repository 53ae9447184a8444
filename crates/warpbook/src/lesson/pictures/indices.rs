//! Pictures of which thread computes which element, and of which addresses a warp reads.

use super::{BLUE, GREY, WARP, counted, listed};
use crate::figures;
use crate::prelude::*;
use warpbook_charts::ChartError;
use warpbook_charts::diagram::{Diagram, Matrix};

/// Largest number of threads whose numbers can be read in a picture.
const READABLE: usize = 256;
/// Number of 4-byte words in a sector, which memory always moves as a whole, and in a line of four sectors.
const SECTOR: usize = 8;
const LINE: usize = 32;
/// Number of tones that the blocks cycle through; grey is for threads without an element.
const TONES: usize = 7;

/// Returns the error for a launch that cannot be drawn, which says what a picture can show.
fn refused(what: &str) -> ChartError {
    ChartError::NothingToDraw(what.to_owned())
}

/// Checks that a launch has threads, and few enough to write a number into each.
fn readable(blocks: usize, threads: usize, elements: usize) -> std::result::Result<usize, ChartError> {
    match blocks.checked_mul(threads) {
        None | Some(0) => Err(refused("A launch needs at least one block of at least one thread.")),
        Some(total) if total > READABLE || elements > 2 * READABLE => Err(refused(&format!(
            "Choose at most {READABLE} threads and {} elements: more numbers cannot be read.",
            2 * READABLE
        ))),
        Some(total) => Ok(total),
    }
}

/// Returns the tone of a thread of the grid: the tone of its block, or grey if its element is beyond the end of the array.
fn tone(thread: usize, threads: usize, element: usize, n: usize) -> usize {
    if element < n { thread / threads % TONES } else { GREY }
}

/// Draws the blocks of a launch with the element `blockIdx.x * blockDim.x + threadIdx.x` of each thread. Threads beyond the `n` elements are grey.
///
/// # Errors
/// [`ChartError::NothingToDraw`] if the launch is empty, or too large to be read.
pub fn which_element(blocks: usize, threads: usize, n: usize) -> std::result::Result<Chart, ChartError> {
    let total = readable(blocks, threads, n)?;
    let idle = total.saturating_sub(n);
    let said = match (total.cmp(&n), idle) {
        (std::cmp::Ordering::Less, _) => {
            let verb = if n - total == 1 { "has" } else { "have" };
            format!("{} {verb} no thread.", counted(n - total, "element"))
        }
        (_, 0) => "Every thread has an element.".to_owned(),
        (_, idle) => format!(
            "{} without an element: the guard i < n stops {}.",
            counted(idle, "thread"),
            if idle == 1 { "it" } else { "them" }
        ),
    };
    let mut diagram = Diagram::new(&format!(
        "{} of {}, {}",
        counted(blocks, "block"),
        counted(threads, "thread"),
        counted(n, "element")
    ))
    .subtitle("i = blockIdx.x * blockDim.x + threadIdx.x is written into each thread")
    .describe(&format!("Thread t of block b computes element {threads} b + t. {said}"))
    .note(&said)
    .table(["blockIdx.x", "elements"]);
    for block in 0..blocks {
        let first = block * threads;
        let mut row = Matrix::new("", 1, threads)
            .cell(26.0, 20.0)
            .fill("", |_, t| Some(tone(first + t, threads, first + t, n)))
            .write(|_, t| (first + t).to_string())
            .at_row(0, &format!("block {block}"));
        if block == 0 {
            row = (0..threads)
                .step_by(if threads > 16 { 8 } else { 1 })
                .fold(row, |row, t| row.at_column(t, &t.to_string()));
        }
        let its: Vec<usize> = (first..first + threads).filter(|i| *i < n).collect();
        diagram = diagram.row(if block == 0 { "threadIdx.x is above the first block" } else { "" }).put(row);
        diagram = diagram.figures([block.to_string(), listed(&its, 8)]);
    }
    diagram.draw()
}

/// Draws a grid of blocks of `threads_x × threads_y` threads over a matrix of `rows × columns`: each square is an element with the thread
/// `(threadIdx.x, threadIdx.y)` that computes it, in its block's colour.
///
/// # Errors
/// [`ChartError::NothingToDraw`] if a size is 0, or the matrix is too large to be read.
pub fn which_element_2d(
    (threads_x, threads_y): (usize, usize),
    (rows, columns): (usize, usize),
) -> std::result::Result<Chart, ChartError> {
    if threads_x * threads_y * rows * columns == 0 || rows * columns > READABLE || threads_x * threads_y > 1024 {
        return Err(refused(&format!("Choose a matrix of 1 to {READABLE} elements, and blocks of 1 to 1024 threads.")));
    }
    let (blocks_x, blocks_y) = (columns.div_ceil(threads_x), rows.div_ceil(threads_y));
    let (wide, high) = (blocks_x * threads_x, blocks_y * threads_y);
    let block = |row: usize, column: usize| row / threads_y * blocks_x + column / threads_x;
    let grid = Matrix::new("", high, wide)
        .cell((660.0 / wide as f64).min(34.0), 20.0)
        .fill("", |row, column| Some(if row < rows && column < columns { block(row, column) % TONES } else { GREY }))
        .write(|row, column| format!("{},{}", column % threads_x, row % threads_y))
        .rule(threads_y, threads_x)
        .frame(0..rows, 0..columns)
        .caption("The frame is the matrix; grey threads lie outside of it and must do nothing.");
    let grid = (0..high).fold(grid, |grid, row| grid.at_row(row, &format!("row {row}")));
    Diagram::new(&format!("A matrix of {rows} × {columns}, {} × {} blocks of {threads_x} × {threads_y} threads", blocks_x, blocks_y))
        .subtitle("threadIdx.x,threadIdx.y is written into each thread; x goes along a row, y down the rows")
        .describe(&format!(
            "The thread with column blockIdx.x * {threads_x} + threadIdx.x and row blockIdx.y * {threads_y} + threadIdx.y computes the element there; \
             {} of the {} threads have none.",
            wide * high - rows * columns,
            wide * high
        ))
        .put(grid)
        .table(["what", "along x", "along y"])
        .figures(["blocks".to_owned(), blocks_x.to_string(), blocks_y.to_string()])
        .figures(["threads".to_owned(), wide.to_string(), high.to_string()])
        .figures(["elements".to_owned(), columns.to_string(), rows.to_string()])
        .draw()
}

/// Draws a grid-stride loop: at each step all threads of the grid take neighbouring elements, and then advance by the size of the grid. The elements of one
/// thread are framed.
///
/// # Errors
/// [`ChartError::NothingToDraw`] if the launch is empty, or too large to be read.
pub fn grid_stride(blocks: usize, threads: usize, n: usize) -> std::result::Result<Chart, ChartError> {
    let total = readable(blocks, threads, n)?;
    let steps = n.div_ceil(total).max(1);
    let followed = total * 5 / 16;
    let its: Vec<usize> = (followed..n).step_by(total).collect();
    let steps_of_all = Matrix::new("", steps, total)
        .cell((620.0 / total as f64).min(36.0), 20.0)
        .fill("", |step, t| Some(tone(t, threads, step * total + t, n)))
        .write(|step, t| (step * total + t).to_string())
        .rule(0, threads)
        .frame(0..steps, followed..followed + 1);
    let named = (0..steps).fold(steps_of_all, |m, step| m.at_row(step, &format!("step {step}")));
    let named = (0..blocks).fold(named, |m, b| m.at_column(b * threads, &format!("block {b}")));
    Diagram::new(&format!("A grid-stride loop: {} elements, {} threads, a stride of {total}", n, total))
        .subtitle("for (i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)")
        .describe(&format!(
            "At step s thread t of the grid takes element {total} s + t; thread {followed} takes {}.",
            listed(&its, 8)
        ))
        .note(&format!(
            "Framed: thread {followed} of the grid takes the elements {}. Grey threads are past the end.",
            listed(&its, 8)
        ))
        .put(named)
        .table(["step", "first element", "last element"])
        .draw_with_steps(steps, total, n)
}

/// Adds the steps of a grid-stride loop to a diagram's table, and draws it.
trait Steps {
    fn draw_with_steps(self, steps: usize, total: usize, n: usize) -> std::result::Result<Chart, ChartError>;
}

impl Steps for Diagram {
    fn draw_with_steps(self, steps: usize, total: usize, n: usize) -> std::result::Result<Chart, ChartError> {
        let rows = (0..steps).filter(|step| step * total < n);
        rows.fold(self, |d, step| {
            let last = ((step + 1) * total).min(n) - 1;
            d.figures([step.to_string(), (step * total).to_string(), last.to_string()])
        })
        .draw()
    }
}

/// Draws the sectors that one load of a warp reads from memory, first if neighbouring lanes read neighbouring 4-byte words, and then if they read words that
/// are `stride` words apart. Memory always moves whole sectors of 32 bytes, even if only a part is used.
///
/// # Errors
/// [`ChartError::NothingToDraw`] if the stride is 0 or above 32.
pub fn coalesced_and_strided(stride: usize) -> std::result::Result<Chart, ChartError> {
    if !(1..=WARP).contains(&stride) {
        return Err(refused("Choose a stride of 1 to 32 words."));
    }
    let sectors = |stride: usize| {
        let mut all: Vec<usize> = (0..WARP).map(|lane| lane * stride / SECTOR).collect();
        all.dedup();
        all
    };
    let lines = |stride: usize| ((WARP - 1) * stride + 1).div_ceil(LINE);
    let picture = |stride: usize| {
        let fetched = sectors(stride);
        let height = if lines(stride) > 8 { 9.0 } else { 16.0 };
        let memory = Matrix::new("", lines(stride), LINE).cell(16.0, height).rule(0, SECTOR);
        let memory = fetched.iter().fold(memory, |m, sector| {
            let (line, first) = (sector * SECTOR / LINE, sector * SECTOR % LINE);
            m.tint(line..line + 1, first..first + SECTOR, GREY, "moved")
        });
        let memory = (0..WARP).fold(memory, |m, lane| {
            let word = lane * stride;
            m.shade(word / LINE..word / LINE + 1, word % LINE..word % LINE + 1, BLUE, "read by a lane")
        });
        [0, lines(stride) - 1].into_iter().fold(memory, |m, line| m.at_row(line, &format!("line {line}")))
    };
    let useful = |stride: usize| 100.0 * WARP as f64 / (sectors(stride).len() * SECTOR) as f64;
    let heading = |stride: usize, how: &str| {
        format!(
            "{how}: {}, {} B moved for 128 B that are used, {} %",
            counted(sectors(stride).len(), "sector"),
            32 * sectors(stride).len(),
            figures::significant(useful(stride), 3)
        )
    };
    let row = |d: Diagram, stride: usize| {
        let count = sectors(stride).len();
        d.figures([
            stride.to_string(),
            lines(stride).to_string(),
            count.to_string(),
            (32 * count).to_string(),
            "128".to_owned(),
        ])
    };
    let diagram = Diagram::new("One load of a warp: 32 lanes, 4 bytes each")
        .subtitle("each row is a line of 128 bytes; the rules in it separate its four sectors of 32 bytes")
        .describe(&format!(
            "Coalesced, the 32 words of a warp lie in {} sectors; with a stride of {stride} words they lie in {}.",
            sectors(1).len(),
            sectors(stride).len()
        ))
        .row(&heading(1, "Coalesced, lane l reads word l"))
        .put(picture(1))
        .row(&heading(stride, &format!("Strided, lane l reads word {stride} l")))
        .put(picture(stride))
        .table(["stride (words)", "lines", "sectors", "bytes moved", "bytes used"]);
    row(row(diagram, 1), stride).draw()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_without_an_element_are_named() {
        let chart = which_element(4, 8, 27).unwrap();
        assert!(chart.description.contains("5 threads without an element"), "{}", chart.description);
        assert_eq!(chart.table.rows[3], ["3", "24, 25, 26"]);
        assert!(which_element(1, 8, 8).unwrap().description.contains("Every thread has an element"));
        assert!(which_element(1, 8, 9).unwrap().description.contains("1 element has no thread"));
        assert!(which_element(0, 8, 9).is_err() && which_element(100, 8, 9).is_err());
    }

    #[test]
    fn two_dimensions_count_idle_threads() {
        let chart = which_element_2d((4, 4), (6, 10)).unwrap();
        assert!(chart.description.contains("36 of the 96 threads"), "{}", chart.description);
        assert_eq!(chart.table.rows[0], ["blocks", "3", "2"]);
        assert!(which_element_2d((4, 0), (6, 10)).is_err());
    }

    #[test]
    fn a_thread_goes_on_by_the_size_of_the_grid() {
        let chart = grid_stride(4, 4, 42).unwrap();
        assert!(chart.description.contains("thread 5 takes 5, 21, 37"), "{}", chart.description);
        assert_eq!(chart.table.rows, [["0", "0", "15"], ["1", "16", "31"], ["2", "32", "41"]]);
    }

    #[test]
    fn sectors_are_counted_as_the_emulator_counts_them() {
        for (stride, lines, sectors) in [(1, 1, 4), (2, 2, 8), (8, 8, 32), (32, 32, 32)] {
            let chart = coalesced_and_strided(stride).unwrap();
            let row = &chart.table.rows[1];
            assert_eq!(row[1..3], [lines.to_string(), sectors.to_string()], "{stride}");
        }
        assert!(coalesced_and_strided(0).is_err() && coalesced_and_strided(33).is_err());
    }
}
