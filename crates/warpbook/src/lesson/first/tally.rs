//! Counts of a kernel's work in the emulator, line by line.

use super::launch::{Given, run_checked};
use crate::figures;
use crate::lesson::table;
use crate::prelude::*;
use warpbook_charts::Table;
use warpbook_kernels::Launch;
use warpbook_record::{Emulated, LineCounts};

/// A kernel's arguments after it has run in the emulator, and the memory accesses of its lines.
#[derive(Debug, Clone, PartialEq)]
pub struct Tally {
    /// The arguments, in the kernel's order; arrays have the values that the kernel left.
    pub after: Vec<Given>,
    source: String,
    emulated: Emulated,
}

/// Runs a kernel in the emulator with all checks on, and counts what its lines do. The counts include no time, since the emulator measures none.
///
/// # Errors
/// If the kernel does not compile, or if the checks find a mistake; the error describes the first mistake.
pub fn tally<const N: usize>(source: &str, shape: Launch, given: [Given; N]) -> Result<Tally> {
    let (after, emulated) = run_checked(source, shape, &given)?;
    Ok(Tally { after, source: source.to_owned(), emulated })
}

impl Tally {
    /// Returns the array of floats at this position among the arguments, counted from 0; empty if there is no such array.
    #[must_use]
    pub fn floats(&self, argument: usize) -> &[f32] {
        match self.after.get(argument) {
            Some(Given::Floats(values)) => values,
            _ => &[],
        }
    }

    /// Returns the array of integers at this position among the arguments, counted from 0; empty if there is no such array.
    #[must_use]
    pub fn ints(&self, argument: usize) -> &[i32] {
        match self.after.get(argument) {
            Some(Given::Ints(values)) => values,
            _ => &[],
        }
    }

    fn sum(&self, count: impl Fn(&LineCounts) -> u64) -> u64 {
        self.emulated.lines.iter().map(count).sum()
    }

    /// Returns the number of requests that warps made to global memory, over all lines.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.sum(|line| line.requests)
    }

    /// Returns the number of 32-byte sectors that the requests to global memory touched.
    #[must_use]
    pub fn sectors(&self) -> u64 {
        self.sum(|line| line.sectors)
    }

    /// Returns the number of passes (wavefronts) of shared memory, over all lines.
    #[must_use]
    pub fn wavefronts(&self) -> u64 {
        self.sum(|line| line.wavefronts)
    }

    /// Returns the number of atomic instructions, counted for each warp, over all lines.
    #[must_use]
    pub fn atomics(&self) -> u64 {
        self.sum(|line| line.atomics)
    }

    /// Returns a table of the lines that accessed memory or at which lanes diverged. Columns without values are left out.
    #[must_use]
    pub fn table(&self) -> Table {
        let touches = |line: &LineCounts| {
            line.requests + line.wavefronts + line.atomics + line.shuffles + line.divergent_branches > 0
        };
        self.table_of(touches)
    }

    /// Returns a table of all lines that were executed.
    #[must_use]
    pub fn all_lines(&self) -> Table {
        self.table_of(|line| line.instructions > 0)
    }

    fn table_of(&self, is_shown: impl Fn(&LineCounts) -> bool) -> Table {
        let ratio = |count: u64, of: u64| match of {
            0 => String::new(),
            of if count.is_multiple_of(of) => (count / of).to_string(),
            of => figures::significant(count as f64 / of as f64, 3),
        };
        let whole = |count: u64| if count == 0 { String::new() } else { count.to_string() };
        type Cell<'a> = &'a dyn Fn(&LineCounts) -> String;
        let columns: [(&str, Cell<'_>); 8] = [
            ("requests", &|line| whole(line.requests)),
            ("sectors a request", &|line| ratio(line.sectors, line.requests)),
            ("at least", &|line| ratio(line.ideal_sectors, line.requests)),
            ("wavefronts", &|line| whole(line.wavefronts)),
            ("wavefronts, at least", &|line| whole(line.ideal_wavefronts)),
            ("atomics", &|line| whole(line.atomics)),
            ("exchanges", &|line| whole(line.shuffles)),
            ("lanes of 32", &|line| line.mean_lanes().map_or_else(String::new, |n| figures::significant(n, 3))),
        ];
        let lines: Vec<&LineCounts> = self.emulated.lines.iter().filter(|line| is_shown(line)).collect();
        let used = columns.iter().filter(|(_, cell)| lines.iter().any(|line| !cell(line).is_empty()));
        let used: Vec<_> = used.collect();
        let headers: Vec<&str> = ["line", "source"].into_iter().chain(used.iter().map(|(name, _)| *name)).collect();
        let row = |line: &&LineCounts| {
            let text = self.source.lines().nth((line.line as usize).saturating_sub(1)).unwrap_or_default();
            let begin = [line.line.to_string(), text.trim().to_owned()];
            begin.into_iter().chain(used.iter().map(|(_, cell)| cell(line))).collect()
        };
        table(&headers, lines.iter().map(row).collect())
    }

    fn notes(&self) -> String {
        self.emulated.notes.join("\n")
    }
}

impl Show for Tally {
    fn html(&self) -> String {
        let notes = self.notes();
        let notes = if notes.is_empty() { notes } else { notes.html() };
        Show::html(&self.table()) + &notes
    }

    fn text(&self) -> String {
        [Show::text(&self.table()), self.notes()].join("\n").trim_end().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::super::shape;
    use super::*;

    #[test]
    fn lines_that_touch_memory_are_counted_and_arrays_come_back() {
        let source = "extern \"C\" __global__ void twice(const float* x, float* y, int n) {\n\
                      int i = 2 * threadIdx.x;\nif (i < n) {\ny[i] = 2 * x[i];\n}\n}\n";
        let x: Vec<f32> = (0..64).map(|i| i as f32).collect();
        let seen = tally(source, shape(1, 32), [(&x).into(), (&vec![0.0; 64]).into(), 64.into()]).unwrap();
        assert_eq!(seen.floats(1)[..4], [0.0, 0.0, 4.0, 0.0]);
        assert_eq!((seen.requests(), seen.sectors()), (2, 16));
        assert!(seen.all_lines().rows.len() > seen.table().rows.len());
        assert_eq!(seen.table().rows[0][..5], ["4", "y[i] = 2 * x[i];", "2", "8", "4"]);
        assert!(seen.text().contains("sectors a request"));
    }

    #[test]
    fn a_mistake_comes_with_its_line_and_thread() {
        let source = "extern \"C\" __global__ void all(float* y) {\n  y[threadIdx.x] = 1;\n}\n";
        let why = tally(source, shape(1, 32), [(&vec![0.0f32; 27]).into()]).unwrap_err().to_string();
        let expect = ["kernel.cu, line 2", "(`y`)", "element 27", "thread (27, 0, 0)"];
        assert!(expect.iter().all(|part| why.contains(part)), "{why}");
    }
}
