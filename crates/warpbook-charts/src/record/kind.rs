//! The kinds of runners, and their colours.

use crate::draw::{AMBER, BLUE, BROWN, INDIGO, OLIVE, PURPLE, Rgb, SKY, STEEL, UMBER, VIOLET, clean};
use warpbook_record::{LIVE, Run, Rung, Runner};

/// The kind of a rung's runner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunnerKind {
    Kernels,
    Library,
    Framework,
    Cpu,
}

impl RunnerKind {
    /// Returns the kind of a record's rung. A framework on the CPU counts as CPU.
    pub(crate) fn of_rung(run: &Run, rung: &str) -> Self {
        match () {
            () if on_cpu(run, rung) => Self::Cpu,
            () if is_library(run, rung) => Self::Library,
            () if is_external(run, rung) => Self::Framework,
            () => Self::Kernels,
        }
    }

    /// Returns the tones of the kind, in the order in which rungs use them.
    pub(crate) fn tones(self) -> &'static [Rgb] {
        match self {
            Self::Kernels => &[BLUE, SKY, INDIGO, STEEL],
            Self::Library => &[PURPLE, VIOLET],
            Self::Framework => &[AMBER, OLIVE],
            Self::Cpu => &[BROWN, UMBER],
        }
    }

    pub(crate) fn color(self) -> Rgb {
        self.tones()[0]
    }

    /// Returns the name of the kind in a legend.
    pub(crate) fn name(self, rung: Option<&Rung>) -> String {
        match self {
            Self::Cpu => "CPU".into(),
            Self::Library if rung.is_some_and(Rung::is_driver) => "CUDA driver".into(),
            Self::Library => "GPU library".into(),
            Self::Framework => {
                let name = rung.and_then(Rung::framework).map(clean).unwrap_or_default();
                if name.is_empty() { "another framework".into() } else { name }
            }
            Self::Kernels => "GPU kernels".into(),
        }
    }
}

/// Returns true if a rung runs on the CPU.
pub(crate) fn on_cpu(run: &Run, rung: &str) -> bool {
    run.rung(rung).is_some_and(Rung::is_cpu)
}

/// Returns true if another framework runs the rung.
pub(crate) fn is_external(run: &Run, rung: &str) -> bool {
    run.rung(rung).and_then(Rung::framework).is_some()
}

/// Returns true if a GPU library runs the rung.
pub(crate) fn is_library(run: &Run, rung: &str) -> bool {
    run.rung(rung).is_some_and(Rung::is_library)
}

/// Returns true if a rung is a learner's own kernel.
pub(crate) fn is_own(rung: &Rung) -> bool {
    let Runner::Kernels { specs, .. } = &rung.runner else { return false };
    rung.variant_of.is_some() && specs.iter().any(|s| s.file.starts_with(LIVE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::colour::{GREY, SERIES, VERMILLION, contrast};
    use warpbook_record::CUDA_DRIVER;

    const KINDS: [RunnerKind; 4] = [RunnerKind::Kernels, RunnerKind::Library, RunnerKind::Framework, RunnerKind::Cpu];

    #[test]
    fn colours_read_on_white_and_on_near_black() {
        for c in SERIES.into_iter().chain(KINDS.iter().flat_map(|k| k.tones().iter().copied())) {
            for paper in [(0xFF, 0xFF, 0xFF), (0x11, 0x11, 0x11)] {
                let ratio = contrast(c, paper);
                assert!(ratio >= 3.0, "{c:?} on {paper:?}: {ratio}");
            }
        }
    }

    #[test]
    fn a_legend_tells_the_driver_from_libraries() {
        let library = |name: &'static str| Rung { runner: Runner::Library(name.into()), ..Rung::cpu("a", "A", "", "") };
        let names =
            [CUDA_DRIVER, "cuBLAS", "a driver of screws"].map(|name| RunnerKind::Library.name(Some(&library(name))));
        assert_eq!(names, ["CUDA driver", "GPU library", "GPU library"]);
    }

    #[test]
    fn no_tone_is_of_two_kinds_or_means_a_loss() {
        let all: Vec<Rgb> = KINDS.iter().flat_map(|k| k.tones().iter().copied()).chain([VERMILLION, GREY]).collect();
        assert!((1..all.len()).all(|i| !all[..i].contains(&all[i])));
    }
}
