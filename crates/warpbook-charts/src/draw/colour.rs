//! Colours based on the palette of Okabe and Ito, shifted to tones that are readable on white and on near-black.
//!
//! A colour has one meaning in all charts of a record:
//!
//! | colour | means |
//! |---|---|
//! | blues | kernels of the ladder, and cells in which they are ahead |
//! | purples | GPU libraries |
//! | ambers | other frameworks |
//! | browns | the CPU |
//! | vermillion | losses: time above a bound, copies, cells in which a library is ahead |
//! | grey | marks for comparison only: the rest of many lines, idle time, work that was not counted |
//! | the text's colour | references that values are compared with: ceilings, roofs, axes |
//!
//! Shapes, dashes and words show all other differences: levels of memory and records have markers, lines of one kind have tones of its colour.
//! Diagrams and timelines, which show no rungs, use [`SERIES`] in order.

pub(crate) type Rgb = (u8, u8, u8);

pub(crate) const BLUE: Rgb = (0x2A, 0x7F, 0xC4);
pub(crate) const VERMILLION: Rgb = (0xD5, 0x5E, 0x00);
pub(crate) const PURPLE: Rgb = (0xB9, 0x62, 0x9B);
pub(crate) const AMBER: Rgb = (0xB8, 0x86, 0x0B);
pub(crate) const GREY: Rgb = (0x80, 0x86, 0x8C);
pub(crate) const BROWN: Rgb = (0x96, 0x70, 0x5B);
/// A second tone of blue.
pub(crate) const SKY: Rgb = (0x2B, 0x95, 0xA8);
const GREEN: Rgb = (0x00, 0x96, 0x6C);
pub(crate) const INDIGO: Rgb = (0x6E, 0x72, 0xD9);
pub(crate) const STEEL: Rgb = (0x4A, 0x6F, 0xB5);
pub(crate) const VIOLET: Rgb = (0x9A, 0x5F, 0xC0);
pub(crate) const OLIVE: Rgb = (0x9C, 0x8A, 0x1E);
pub(crate) const UMBER: Rgb = (0x7D, 0x6B, 0x62);

/// Colours of series that are not rungs, in this order.
pub(crate) const SERIES: [Rgb; 8] = [BLUE, VERMILLION, GREEN, PURPLE, AMBER, SKY, BROWN, GREY];

/// Returns a colour's relative luminance as defined by WCAG 2.
#[cfg(test)]
fn luminance((r, g, b): Rgb) -> f64 {
    let linear = |c: u8| {
        let c = f64::from(c) / 255.0;
        if c <= 0.040_45 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
    };
    0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b)
}

/// Returns the contrast ratio of two colours as defined by WCAG 2.
#[cfg(test)]
pub(crate) fn contrast(a: Rgb, b: Rgb) -> f64 {
    let (a, b) = (luminance(a), luminance(b));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

/// Returns the visible colour of a colour that is drawn with an opacity on a background.
#[cfg(test)]
pub(crate) fn blended(color: Rgb, alpha: f64, paper: Rgb) -> Rgb {
    let mix = |c: u8, p: u8| (f64::from(c) * alpha + f64::from(p) * (1.0 - alpha)).round() as u8;
    (mix(color.0, paper.0), mix(color.1, paper.1), mix(color.2, paper.2))
}
