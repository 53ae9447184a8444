//! Colours after Okabe and Ito, shifted to tones that read on white and on near-black.
//!
//! A colour has one meaning in all charts of a record:
//!
//! | colour | means |
//! |---|---|
//! | blues | kernels of the ladder, and where these are ahead |
//! | purples | GPU libraries |
//! | ambers | other frameworks |
//! | browns | the CPU |
//! | vermillion | what is lost: time above a bound, copies, cells in which a library is ahead |
//! | grey | what is there for comparison only: the rest of many lines, idle time, work that was not counted |
//! | the text's colour | what values are held against: ceilings, roofs, axes |
//!
//! What else differs is told by shapes, dashes and words: levels of memory and records have markers, lines of one kind have
//! tones of its colour. Diagrams and timelines, which show no rungs, take [`SERIES`] as they come.

use crate::common::{is_external, is_library, on_cpu};
use crate::text::clean;
use warpbook_record::{Run, Rung};

pub(crate) type Rgb = (u8, u8, u8);

pub(crate) const BLUE: Rgb = (0x2A, 0x7F, 0xC4);
pub(crate) const VERMILLION: Rgb = (0xD5, 0x5E, 0x00);
pub(crate) const PURPLE: Rgb = (0xB9, 0x62, 0x9B);
pub(crate) const AMBER: Rgb = (0xB8, 0x86, 0x0B);
pub(crate) const GREY: Rgb = (0x80, 0x86, 0x8C);
pub(crate) const BROWN: Rgb = (0x96, 0x70, 0x5B);
/// A second blue.
pub(crate) const SKY: Rgb = (0x2B, 0x95, 0xA8);
const GREEN: Rgb = (0x00, 0x96, 0x6C);
const INDIGO: Rgb = (0x6E, 0x72, 0xD9);
const STEEL: Rgb = (0x4A, 0x6F, 0xB5);
const VIOLET: Rgb = (0x9A, 0x5F, 0xC0);
const OLIVE: Rgb = (0x9C, 0x8A, 0x1E);
const UMBER: Rgb = (0x7D, 0x6B, 0x62);

/// The colours of what are no rungs, in this order.
pub(crate) const SERIES: [Rgb; 8] = [BLUE, VERMILLION, GREEN, PURPLE, AMBER, SKY, BROWN, GREY];

/// What runs a rung.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Kernels,
    Library,
    Framework,
    Cpu,
}

impl Kind {
    /// Of a rung of a record. A framework on the CPU is the CPU's.
    pub(crate) fn of(run: &Run, rung: &str) -> Self {
        match () {
            () if on_cpu(run, rung) => Self::Cpu,
            () if is_library(run, rung) => Self::Library,
            () if is_external(run, rung) => Self::Framework,
            () => Self::Kernels,
        }
    }

    /// Its tones, in the order of the rungs that take one.
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

    /// As a legend has it.
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

/// WCAG 2's relative luminance.
#[cfg(test)]
fn luminance((r, g, b): Rgb) -> f64 {
    let linear = |c: u8| {
        let c = f64::from(c) / 255.0;
        if c <= 0.040_45 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
    };
    0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b)
}

/// WCAG 2's contrast.
#[cfg(test)]
pub(crate) fn contrast(a: Rgb, b: Rgb) -> f64 {
    let (a, b) = (luminance(a), luminance(b));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

/// What a colour of that much cover gives on a paper.
#[cfg(test)]
pub(crate) fn blended(color: Rgb, alpha: f64, paper: Rgb) -> Rgb {
    let mix = |c: u8, p: u8| (f64::from(c) * alpha + f64::from(p) * (1.0 - alpha)).round() as u8;
    (mix(color.0, paper.0), mix(color.1, paper.1), mix(color.2, paper.2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpbook_record::{CUDA_DRIVER, Runner};

    const KINDS: [Kind; 4] = [Kind::Kernels, Kind::Library, Kind::Framework, Kind::Cpu];

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
        let of = |name: &'static str| Rung { runner: Runner::Library(name.into()), ..Rung::cpu("a", "A", "", "") };
        let said = [CUDA_DRIVER, "cuBLAS", "a driver of screws"].map(|name| Kind::Library.name(Some(&of(name))));
        assert_eq!(said, ["CUDA driver", "GPU library", "GPU library"]);
    }

    #[test]
    fn no_tone_is_of_two_kinds_or_means_a_loss() {
        let all: Vec<Rgb> = KINDS.iter().flat_map(|k| k.tones().iter().copied()).chain([VERMILLION, GREY]).collect();
        assert!((1..all.len()).all(|i| !all[..i].contains(&all[i])));
    }
}
