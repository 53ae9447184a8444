//! A picture of a launch: which thread wrote each element of an array, whether the element is right, and how often the elements of the inputs were read.

use super::case::Case;
use std::ops::Range;
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

/// Reads of the elements of an array in one launch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArrayReads {
    /// Name of the kernel's argument that holds the array.
    pub array: String,
    /// For each element, the number of times that threads read it.
    pub counts: Vec<u32>,
}

impl ArrayReads {
    /// Returns the ranges of neighbouring elements that were read equally often, each with the number of reads of an element.
    #[must_use]
    pub fn runs(&self) -> Vec<(Range<usize>, u32)> {
        let mut start = 0;
        let run = |equal: &[u32]| {
            let elements = start..start + equal.len();
            start = elements.end;
            (elements, equal[0])
        };
        self.counts.chunk_by(|a, b| a == b).map(run).collect()
    }
}

/// Elements of an array after a launch, starting near the first wrong element, at most 512.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    /// Name of the case, such as "n = 1000".
    pub case: String,
    /// Name of the kernel's argument that holds the array.
    pub array: String,
    /// Index of the first element in the picture.
    pub first: usize,
    /// Number of elements of the array.
    pub length: usize,
    /// The elements, in order.
    pub cells: Vec<PictureCell>,
    /// Reads of each array that had elements before the launch, in the order of the arguments.
    pub reads: Vec<ArrayReads>,
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
        Self { case: case.name().into(), array: array.into(), first, length, cells, reads: Vec::new() }
    }

    /// Adds the reads of all arrays that had elements before the launch. `touched` has the accesses to each argument.
    pub(super) fn with_reads(self, case: &Case, touched: &[Option<Touched>]) -> Self {
        let arrays = case.arguments().iter().zip(touched);
        let reads = arrays.filter_map(|(argument, touched)| {
            let (length, touched) = (argument.role.before()?.len(), touched.as_ref()?);
            let counts = (0..length).map(|i| touched.reads(i)).collect();
            Some(ArrayReads { array: argument.name.into(), counts })
        });
        Self { reads: reads.collect(), ..self }
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
