//! Pictures of how CUDA works, drawn by code: with the figures of a device, or with the numbers of a launch that a learner chooses.
//!
//! Each function returns a chart with a description for screen readers and the table of its numbers.

mod device;
mod indices;
mod sums;
mod waiting;

pub use device::{memory_levels, who_is_there};
pub use indices::{coalesced_and_strided, grid_stride, which_element, which_element_2d};
pub use sums::{butterfly, reduction_tree, sum_of_a_grid};
pub use waiting::{launch_returns, overlapped_copy};

/// Number of threads in a warp.
const WARP: usize = 32;

/// Tones of diagrams, as indices into the colours of the charts' series.
const BLUE: usize = 0;
const VERMILLION: usize = 1;
const GREEN: usize = 2;
const GREY: usize = 7;

/// Writes a count with its noun: "1 warp", "8 warps".
fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Lists the first numbers: "5, 21, 37", or "0, 16, 32 ..." if there are more than `most`.
fn listed(numbers: &[usize], most: usize) -> String {
    let shown: Vec<String> = numbers.iter().take(most).map(usize::to_string).collect();
    let rest = if numbers.len() > most { " ..." } else { "" };
    format!("{}{rest}", shown.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_listed_and_counted() {
        assert_eq!(counted(1, "warp"), "1 warp");
        assert_eq!(counted(8, "warp"), "8 warps");
        assert_eq!(listed(&[5, 21, 37], 3), "5, 21, 37");
        assert_eq!(listed(&[5, 21, 37], 2), "5, 21 ...");
    }
}
