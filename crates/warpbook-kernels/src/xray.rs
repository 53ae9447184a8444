//! Finds the X-ray marks of a kernel in its source; see `kernels/xray.cuh`.

use crate::shared::source;
use crate::{HEADERS, Include, includes};
use warpbook_record::xray::phase;
use warpbook_record::{Define, Grid, KernelSpec, Requires, Source, Tile};

/// The header that declares the marks.
const HEADER: &str = "xray.cuh";
/// Name of a kernel's last mark.
const END: &str = "end";
/// Number of messages sent to each SM when the clocks of the SMs are compared.
pub const CLOCK_ROUNDS: u32 = 24;

/// The names that a kernel's marks refer to; each mark stores the index of its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marks {
    /// Entry points of the kernels in the file that have marks.
    pub entries: Vec<String>,
    /// Names of the phases: first the time before any named phase, then the end, then the phases named in the source and
    /// its includes.
    pub phases: Vec<String>,
}

impl Marks {
    /// Phase index of a warp's last mark.
    pub const END: usize = 1;

    /// Returns the names of a kernel's marks; `None` if it has no marks.
    #[must_use]
    pub fn for_kernel(spec: &KernelSpec) -> Option<Self> {
        Self::of_source(&spec.source, HEADERS)
    }

    fn of_source(text: &str, headers: &[Source]) -> Option<Self> {
        let mut marks = Self { entries: Vec::new(), phases: vec![phase::START.into(), END.into()] };
        named(text, "MARK_BEGIN(").for_each(|name| add(&mut marks.entries, name));
        if marks.entries.is_empty() {
            return None;
        }
        let (mut texts, mut seen) = (vec![text], vec![HEADER]);
        while let Some(text) = texts.pop() {
            named(text, "MARK(").for_each(|name| add(&mut marks.phases, name));
            for path in includes(text).into_iter().filter_map(Include::name) {
                if let Some(header) = headers.iter().find(|h| h.path == path).filter(|h| !seen.contains(&h.path)) {
                    seen.push(header.path);
                    texts.push(header.text);
                }
            }
        }
        Some(marks)
    }

    /// Returns the named phases, in which a warp spends time, in the order of the source.
    pub fn named(&self) -> impl Iterator<Item = &str> {
        self.phases.iter().skip(2).map(String::as_str)
    }

    /// Returns the kernel with its marks turned on.
    #[must_use]
    pub fn on(&self, spec: &KernelSpec) -> KernelSpec {
        let mut marked = spec.clone().define("XRAY", 1);
        let number = |(i, name): (usize, &String), prefix: &str| Define::new(format!("{prefix}{name}"), i as i64);
        marked.defines.extend(self.phases.iter().enumerate().skip(1).map(|of| number(of, "XRAY_")));
        marked.defines.extend(self.entries.iter().enumerate().map(|of| number(of, "XRAY_ENTRY_")));
        marked
    }
}

/// Finds every `name` in calls of the form `what(name)`.
fn named<'t>(text: &'t str, what: &'t str) -> impl Iterator<Item = &'t str> {
    text.match_indices(what).filter_map(move |(at, _)| {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        // If the name continues to the left, as in XMARK(, this is a different macro.
        if text[..at].chars().next_back().is_some_and(is_word) {
            return None;
        }
        let name = text[at + what.len()..].split(')').next()?.trim();
        (!name.is_empty() && name.chars().all(is_word)).then_some(name)
    })
}

fn add(names: &mut Vec<String>, name: &str) {
    if !names.iter().any(|n| n == name) {
        names.push(name.to_owned());
    }
}

/// Returns the kernel that compares the clocks of all SMs: `sm_clocks(words, samples, sms, stamps, failed, rounds,
/// limit_ns)`. It runs one block per SM.
#[must_use]
pub fn sm_clocks() -> KernelSpec {
    let tile = Tile::new("t32", &[("THREADS", 32)]);
    KernelSpec::new(source!("xray/clocks.cu"), "sm_clocks", &[tile], Grid::Cover).needs(Requires::AtLeast(7, 5))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXTS: &[Source] = &[
        Source { path: "a.cuh", text: "#include \"b.cuh\"\nMARK(wait); XMARK(never); // MARK()" },
        Source { path: "b.cuh", text: "#include \"a.cuh\"\nMARK(load);\n" },
        Source { path: HEADER, text: "#define MARK(phase)" },
    ];

    #[test]
    fn names_are_read_once_from_the_source_and_what_it_includes() {
        let text =
            "#include \"a.cuh\"\n#include \"xray.cuh\"\nMARK_BEGIN(pass);\nMARK(multiply); MARK(wait); MARK(end);";
        let marks = Marks::of_source(text, TEXTS).unwrap();
        assert_eq!(
            (marks.entries, marks.phases),
            (vec!["pass".into()], ["start", "end", "multiply", "wait", "load"].map(String::from).into())
        );
        assert_eq!(Marks::of_source("#include \"a.cuh\"", TEXTS), None, "a kernel that does not begin has none");
    }

    /// Tests the marks of the rungs that lessons show as X-rays.
    #[test]
    fn the_ladder_s_rungs_have_marks() {
        let all = crate::regression::rungs().into_iter().chain(crate::matmul::rungs());
        let marked: Vec<String> = all
            .filter(|r| r.kernels().iter().any(|k| Marks::for_kernel(k).is_some()))
            .map(|r| r.id.to_string())
            .collect();
        for id in [
            "02_fused",
            "05_persistent",
            "06_on_chip",
            "03_shared_tile",
            "08_double_buffered",
            "11_wgmma_tma",
            "12_warp_specialised",
            "13_persistent_cluster",
            "14_overlapped_store",
            "15_split_k",
            "16_tf32_registers",
        ] {
            assert!(marked.iter().any(|m| m == id), "{id} in {marked:?}");
        }
        assert!(!marked.iter().any(|m| m == "01_naive" || m == "01_unfused"), "{marked:?}");
    }

    /// These kernels of the last training rung either run for a long time or let their last block do more work.
    #[test]
    fn kernels_of_a_training_step_have_marks() {
        let mut marked: Vec<String> = Vec::new();
        for (spec, _) in crate::all() {
            let marks = Marks::for_kernel(&spec).filter(|_| spec.file.starts_with("nn/"));
            let Some(marks) = marks else { continue };
            assert!(
                marks.entries.iter().any(|e| *e == spec.entry),
                "{} of {} has no MARK_BEGIN",
                spec.entry,
                spec.file
            );
            marked.push(spec.entry.to_string());
        }
        for entry in [
            "shifted_windows",
            "shifted_gradient",
            "tma_im2col",
            "few_forward",
            "few_gradient",
            "max_forward_adjacent",
            "max_backward_adjacent",
            "cross_entropy_last",
            "mse_last",
            "sum_squares_last",
            "sgd_last",
            "sgd_momentum_last",
            "adam_last",
        ] {
            assert!(marked.iter().any(|m| m == entry), "{entry} in {marked:?}");
        }
    }

    #[test]
    fn every_name_has_its_number() {
        let marks = Marks { entries: vec!["pass".into()], phases: vec!["start".into(), "end".into(), "load".into()] };
        let spec = marks.on(&sm_clocks());
        let defines: Vec<(&str, i64)> = spec.defines.iter().map(|d| (&*d.name, d.value)).collect();
        assert_eq!(defines, [("XRAY", 1), ("XRAY_end", 1), ("XRAY_load", 2), ("XRAY_ENTRY_pass", 0)]);
        assert_eq!(marks.named().collect::<Vec<_>>(), ["load"]);
    }
}
