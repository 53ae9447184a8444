//! Colours after Okabe and Ito, shifted to tones that read on white and on near-black.

pub(crate) type Rgb = (u8, u8, u8);

pub(crate) const BLUE: Rgb = (0x2A, 0x7F, 0xC4);
pub(crate) const VERMILLION: Rgb = (0xD5, 0x5E, 0x00);
pub(crate) const GREEN: Rgb = (0x00, 0x96, 0x6C);
pub(crate) const PURPLE: Rgb = (0xB9, 0x62, 0x9B);
pub(crate) const AMBER: Rgb = (0xB8, 0x86, 0x0B);
pub(crate) const GREY: Rgb = (0x80, 0x86, 0x8C);
const SKY: Rgb = (0x2B, 0x95, 0xA8);
const BROWN: Rgb = (0x96, 0x70, 0x5B);

const DARK_GREY: Rgb = (0x66, 0x6C, 0x72);
const LIGHT_GREY: Rgb = (0x8C, 0x92, 0x98);

/// The greys of other frameworks' lines, in this order.
pub(crate) const GREYS: [Rgb; 3] = [DARK_GREY, LIGHT_GREY, GREY];

/// The colours of lines, in this order; the last is left to other frameworks where there are some.
pub(crate) const SERIES: [Rgb; 8] = [BLUE, VERMILLION, GREEN, PURPLE, AMBER, SKY, BROWN, GREY];

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

    #[test]
    fn colours_read_on_white_and_on_near_black() {
        for c in SERIES.into_iter().chain(GREYS) {
            for paper in [(0xFF, 0xFF, 0xFF), (0x11, 0x11, 0x11)] {
                let ratio = contrast(c, paper);
                assert!(ratio >= 3.0, "{c:?} on {paper:?}: {ratio}");
            }
        }
    }
}
