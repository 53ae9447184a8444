//! Text from a record: cleaned, escaped, measured, elided and wrapped.

pub mod highlight;
pub mod words;

/// Largest number of characters of a record's text in a chart.
const MAX_CHARS: usize = 2_000;

/// Returns a record's text as one line of at most 2,000 characters, without characters that XML forbids and without
/// characters that reorder the text around them.
#[must_use]
pub fn clean(text: &str) -> String {
    let mut out = String::with_capacity(text.len().min(MAX_CHARS));
    let mut space = false;
    for c in text.chars().take(MAX_CHARS) {
        if c.is_whitespace() {
            space = !out.is_empty();
            continue;
        }
        if is_dropped(c) {
            continue;
        }
        if space {
            out.push(' ');
            space = false;
        }
        out.push(c);
    }
    out
}

fn is_dropped(c: char) -> bool {
    let bidi = matches!(c, '\u{200E}' | '\u{200F}' | '\u{061C}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}');
    // Fonts have no glyphs for private-use characters.
    let private = matches!(c, '\u{E000}'..='\u{F8FF}');
    // U+FFFE and U+FFFF are outside XML's Char; the last two code points of each plane are not characters either.
    c.is_control() || bidi || private || (c as u32) & 0xFFFE == 0xFFFE
}

/// Escapes a text for XML and HTML, for content and for quoted attributes.
///
/// All other characters stay, even characters that XML forbids.
#[must_use]
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}

/// Advance widths of U+0020 to U+007E in thousandths of the font size. They are the widths of DejaVu Sans, the widest of the
/// usual fonts, so that nothing overlaps in any of them.
#[rustfmt::skip]
const WIDTHS: [u16; 95] = [
    318, 401, 460, 838, 636, 950, 780, 275, 390, 390, 500, 838, 318, 361, 318, 337,
    636, 636, 636, 636, 636, 636, 636, 636, 636, 636, 337, 337, 838, 838, 838, 531,
    1000, 684, 686, 698, 770, 632, 575, 775, 752, 295, 295, 656, 557, 863, 748, 787,
    603, 787, 695, 635, 611, 732, 684, 989, 685, 611, 685, 390, 337, 390, 838, 500,
    500, 613, 635, 550, 635, 615, 352, 635, 634, 278, 278, 579, 278, 974, 634, 612,
    635, 635, 411, 521, 392, 634, 592, 818, 592, 592, 525, 636, 337, 636, 838,
];

/// Returns the columns of a character in fixed-pitch text: two for East Asian characters and pictographs, none for combining marks.
pub(crate) fn columns(c: char) -> usize {
    match c as u32 {
        0x0300..=0x036F | 0x0483..=0x0489 | 0x0591..=0x05BD | 0x0610..=0x061A | 0x064B..=0x065F => 0,
        0x1AB0..=0x1AFF | 0x1DC0..=0x1DFF | 0x200B..=0x200D | 0x20D0..=0x20FF | 0xFE00..=0xFE0F | 0xFE20..=0xFE2F => 0,
        0x1100..=0x115F | 0x2E80..=0xA4CF | 0xA960..=0xA97F | 0xAC00..=0xD7A3 | 0xF900..=0xFAFF => 2,
        0xFE30..=0xFE6F | 0xFF00..=0xFF60 | 0xFFE0..=0xFFE6 | 0x1F300..=0x1FAFF | 0x20000..=0x3FFFD => 2,
        _ => 1,
    }
}

fn em(c: char) -> f64 {
    if let Some(w) = (c as u32).checked_sub(0x20).and_then(|i| WIDTHS.get(i as usize)) {
        return f64::from(*w) / 1000.0;
    }
    match (c, columns(c)) {
        ('·', _) => 0.32,
        ('×' | '−' | '±', _) => 0.84,
        ('µ', _) => 0.64,
        ('…', _) => 1.0,
        (_, 0) => 0.0,
        (_, 1) => 0.72,
        _ => 1.05,
    }
}

/// Returns the width of a line of text at a font size, in the same unit as the size.
pub(crate) fn width(text: &str, size: f64, bold: bool) -> f64 {
    let weight = if bold { 1.13 } else { 1.0 };
    text.chars().map(em).sum::<f64>() * size * weight
}

/// Tolerance for rounding, since widths are sums of fractions.
const ROUNDING: f64 = 1e-6;

fn fits(text: &str, room: f64, size: f64, bold: bool) -> bool {
    width(text, size, bold) <= room + ROUNDING
}

/// Cuts a text to a width; an ellipsis shows that something was cut off.
pub(crate) fn elide(text: &str, room: f64, size: f64, bold: bool) -> String {
    if fits(text, room, size, bold) {
        return text.to_owned();
    }
    let mut out = String::new();
    let left = room - width("…", size, bold);
    let mut used = 0.0;
    for c in text.chars() {
        used += width(c.encode_utf8(&mut [0; 4]), size, bold);
        if used > left {
            break;
        }
        out.push(c);
    }
    out.truncate(out.trim_end().len());
    out.push('…');
    out
}

/// Breaks a text at spaces into at most `lines` lines of the given width; if the text is longer, the last line is elided.
pub(crate) fn wrap(text: &str, room: f64, size: f64, bold: bool, lines: usize) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        if out.len() + 1 >= lines || fits(rest, room, size, bold) {
            out.push(elide(rest, room, size, bold));
            break;
        }
        // Lines break at the last space that fits; a word longer than a line is cut and elided.
        let mut end = None;
        let mut used = 0.0;
        for (at, c) in rest.char_indices() {
            if c == ' ' {
                end = Some(at);
            }
            used += width(c.encode_utf8(&mut [0; 4]), size, bold);
            if used > room + ROUNDING && end.is_some() {
                break;
            }
        }
        let Some(end) = end.filter(|at| fits(&rest[..*at], room, size, bold)) else {
            out.push(elide(rest, room, size, bold));
            break;
        };
        out.push(rest[..end].trim_end().to_owned());
        rest = rest[end..].trim_start();
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_xml_forbids_is_dropped() {
        let check = |text: &str, expect: &str| assert_eq!(clean(text), expect, "{text:?}");
        check("a\0b\u{8}c\u{1F}d\u{7F}e", "abcde");
        check("  two\n\tlines \r\n here ", "two lines here");
        check("a\u{FFFE}b\u{FFFF}c\u{1FFFE}d", "abcd");
        check("a\u{202E}b\u{2066}c", "abc");
        check("\u{E000}a\u{E001}", "a");
        check("שלום 世界 é", "שלום 世界 é");
        assert_eq!(clean(&"x".repeat(1_000_000)).len(), MAX_CHARS);
    }

    #[test]
    fn markup_is_escaped() {
        let check = |text: &str, expect: &str| assert_eq!(escape(text), expect);
        check("<script>alert('1')</script>", "&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;");
        check("a & b ]]> \"c\"", "a &amp; b ]]&gt; &quot;c&quot;");
    }

    #[test]
    fn elided_and_wrapped_text_fits() {
        let long = "a rather long title of a rung that nobody could have foreseen in any layout";
        for room in [20.0, 60.0, 100.0, 300.0] {
            assert!(width(&elide(long, room, 12.0, false), 12.0, false) <= room);
            for line in wrap(long, room, 12.0, true, 3) {
                assert!(width(&line, 12.0, true) <= room, "{line:?} in {room}");
            }
            assert!(wrap(long, room, 12.0, true, 3).len() <= 3);
        }
        assert_eq!(elide("short", 100.0, 12.0, false), "short");
        assert_eq!(wrap("one two", 1000.0, 12.0, false, 2), ["one two"]);
        assert_eq!(wrap("", 10.0, 12.0, false, 2), [""; 0]);
        assert_eq!(wrap("aaa bbb ccc", width("aaa bbb", 10.0, false), 10.0, false, 2), ["aaa bbb", "ccc"]);
        assert!(wrap(&"x".repeat(500), 50.0, 12.0, false, 2)[0].ends_with('…'));
    }

    #[test]
    fn combining_marks_have_no_width() {
        assert_eq!(width("e\u{301}", 10.0, false), width("e", 10.0, false));
        assert!(width("世界", 10.0, false) >= 20.0);
    }
}
