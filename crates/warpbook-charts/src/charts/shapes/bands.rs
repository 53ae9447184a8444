//! The text of ratios in cells, and the colours of their ranges.

use crate::draw::text::words::significant;
use crate::draw::{BLUE, Font, Paint, Rgb, VERMILLION};

/// A range of ratios, from `from` to the next band, and its paint.
pub(super) struct Band {
    pub(super) from: f64,
    pub(super) color: Option<Rgb>,
    pub(super) alpha: f64,
}

const fn band(from: f64, color: Rgb, alpha: f64) -> Band {
    Band { from, color: Some(color), alpha }
}
/// Bands from slow to fast; within 2 % of the library there is no colour.
pub(super) const BANDS: [Band; 8] = [
    band(0.0, VERMILLION, 0.62),
    band(0.4, VERMILLION, 0.46),
    band(0.7, VERMILLION, 0.30),
    band(0.9, VERMILLION, 0.15),
    Band { from: 0.98, color: None, alpha: 0.05 },
    band(1.02, BLUE, 0.20),
    band(1.08, BLUE, 0.38),
    band(1.2, BLUE, 0.58),
];

impl Band {
    pub(super) fn paint(&self) -> Paint {
        self.color.map_or(Paint { alpha: self.alpha, ..Paint::INK }, |c| Paint::faded(c, self.alpha))
    }

    pub(super) fn containing(ratio: f64) -> &'static Self {
        &BANDS[Self::number(ratio)]
    }

    pub(super) fn number(ratio: f64) -> usize {
        BANDS.iter().rposition(|b| ratio >= b.from).unwrap_or(0)
    }

    pub(super) fn name(number: usize) -> String {
        match BANDS.get(number + 1) {
            None => format!("≥ {:.2}", BANDS[number].from),
            Some(next) if number == 0 => format!("< {:.2}", next.from),
            Some(next) => format!("{:.2}–{:.2}", BANDS[number].from, next.from),
        }
    }
}

/// Formats a ratio in at most five characters; a ratio below 1 is never rounded to 1.
pub(super) fn ratio_text(ratio: f64) -> String {
    match ratio {
        r if r >= 9_999.5 => ">9999".into(),
        r if r >= 9.995 => significant(r, 3),
        r if (0.995..1.0).contains(&r) => format!("{:.3}", r.min(0.999)),
        r if r >= 0.0995 => format!("{r:.2}"),
        r if r >= 0.0005 => format!("{r:.3}"),
        _ => "0.000".into(),
    }
}

/// Formats a ratio for a cell. A text that would touch the text of the next cell is shortened to two digits: without
/// the leading zero below 1, and with one decimal or none above.
pub(super) fn figure(ratio: f64, cell: f64, font: Font) -> String {
    let text = ratio_text(ratio);
    if font.width(&text) + LEAST_GAP <= cell {
        return text;
    }
    match format!("{ratio:.2}").strip_prefix('0') {
        Some(short) => short.to_owned(),
        None if ratio < 9.95 => format!("{ratio:.1}"),
        None if ratio < 99.5 => format!("{ratio:.0}"),
        None => ">99".into(),
    }
}

/// Smallest gap between the figures of neighbouring cells.
const LEAST_GAP: f64 = 4.0;
pub(super) const FIGURE: Font = Font { size: 12.0, bold: false, paint: Paint::INK };

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::colour::{blended, contrast};

    #[test]
    fn ratios_are_short_and_find_their_band() {
        let check = |ratio: f64, text: &str, band: &str| {
            let number = BANDS.iter().position(|b| b.from == Band::containing(ratio).from).unwrap();
            assert_eq!((ratio_text(ratio).as_str(), Band::name(number).as_str()), (text, band));
        };
        check(1.0, "1.00", "0.98–1.02");
        check(0.9962, "0.996", "0.98–1.02");
        check(0.99999, "0.999", "0.98–1.02");
        check(0.979, "0.98", "0.90–0.98");
        check(1.2, "1.20", "≥ 1.20");
        check(12.345, "12.3", "≥ 1.20");
        check(1e9, ">9999", "≥ 1.20");
        check(0.0126, "0.013", "< 0.40");
        check(1e-7, "0.000", "< 0.40");
    }

    #[test]
    fn figures_read_on_every_band() {
        for band in BANDS {
            for (ink, paper) in [((0x1f, 0x23, 0x28), (0xff, 0xff, 0xff)), ((0xe6, 0xe6, 0xe6), (0x16, 0x18, 0x1c))] {
                let paint = blended(band.color.unwrap_or(ink), band.alpha, paper);
                assert!(contrast(ink, paint) >= 4.5, "{} on {paint:?}", band.from);
            }
        }
    }
}
