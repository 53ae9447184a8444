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

/// Tones of diagrams, by their place in the charts' series.
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
#[cfg(test)]
mod dump_tmp {
    use super::*;
    use crate::display::Show;
    #[test]
    fn dump() {
        let gpu = crate::lesson::guide::published("guide-memory-latency").unwrap().environment.device;
        let all = [
            ("who", who_is_there(&gpu, 4, 256)),
            ("who27", who_is_there(&gpu, 1, 27)),
            ("memory", memory_levels(&gpu)),
            ("element", which_element(4, 8, 27)),
            ("element2d", which_element_2d((8, 4), (7, 13))),
            ("stride", grid_stride(4, 4, 42)),
            ("coalesced32", coalesced_and_strided(32)),
            ("coalesced2", coalesced_and_strided(2)),
            ("tree", reduction_tree(8)),
            ("butterfly", butterfly(8)),
            ("sum", sum_of_a_grid(4, 256, 10_000)),
            ("launch", launch_returns(3)),
            ("copy", overlapped_copy(4, [120.0, 80.0, 110.0])),
        ];
        for (name, chart) in all {
            let chart = chart.unwrap();
            std::fs::write(format!("/tmp/pics/{name}.svg"), chart.svg.standalone()).unwrap();
            std::fs::write(format!("/tmp/pics/{name}.html"), chart.html()).unwrap();
            std::fs::write(format!("/tmp/pics/{name}.txt"), chart.text()).unwrap();
        }
    }
}
