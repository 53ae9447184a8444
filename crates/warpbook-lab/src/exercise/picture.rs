//! A picture of an array after a launch, which shows for each element which thread wrote it and whether it is right.

use super::case::Case;
use warpbook_emulator::{Thread, Touched};

/// Maximum number of elements in a picture.
const SHOWN: usize = 512;
/// Elements in a row of a picture, one per lane of a warp.
const ROW: usize = 32;

/// One element of the array in a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PictureCell {
    /// Indices of the block that wrote the element last and of the thread in its block, counted along the x axis first; `None` if no thread wrote it.
    pub writer: Option<(u32, u32)>,
    /// True if the value of the element is right.
    pub is_right: bool,
}

/// Elements of an array after a launch, starting near the first wrong element, at most 512.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    /// Name of the case, such as "n = 1000".
    pub case: String,
    /// Name of the array.
    pub array: String,
    /// Index of the first element in the picture.
    pub first: usize,
    /// Number of elements of the array.
    pub length: usize,
    /// The elements, in order.
    pub cells: Vec<PictureCell>,
}

impl Picture {
    pub(super) fn new(case: &Case, array: &str, is_right: Vec<bool>, touched: &Touched) -> Self {
        let length = is_right.len();
        let number = |index: [u32; 3], sizes: [u32; 3]| index[0] + sizes[0] * (index[1] + sizes[1] * index[2]);
        let numbers = |thread: Thread| (number(thread.block, case.grid()), number(thread.thread, case.block()));
        let wrong = is_right.iter().position(|is_right| !is_right).unwrap_or(0);
        // Start one row earlier, to show right elements too.
        let first = (wrong / ROW).saturating_sub(1) * ROW;
        let cell = |i: usize| PictureCell { writer: touched.writer(i).map(numbers), is_right: is_right[i] };
        let cells = (first..length.min(first + SHOWN)).map(cell).collect();
        Self { case: case.name().into(), array: array.into(), first, length, cells }
    }

    /// Returns the picture as text, with 32 elements per row. Each element is the last digit of the index of the block that wrote it, "x" if its value is
    /// wrong, or "." if no thread wrote it.
    #[must_use]
    pub fn text(&self) -> String {
        let sign = |cell: &PictureCell| match (cell.writer, cell.is_right) {
            (None, _) => '.',
            (Some(_), false) => 'x',
            (Some((block, _)), true) => char::from_digit(block % 10, 10).unwrap_or('?'),
        };
        let row = |(at, cells): (usize, &[PictureCell])| {
            let name = format!("{}[{}]", self.array, self.first + ROW * at);
            format!("{name:>12}  {}\n", cells.iter().map(sign).collect::<String>())
        };
        self.cells.chunks(ROW).enumerate().map(row).collect()
    }
}
