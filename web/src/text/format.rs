//! Formats numbers and dates for the page.

pub use warpbook_charts::words::{
    bandwidth, bytes, counted, number, percent, rate, sentence_case, short as plain, significant, versions,
};

/// The placeholder for a missing figure.
pub const NONE: &str = "–";

/// Formats an RFC 3339 time in UTC as "21 November 2026, 07:00 UTC"; returns other texts unchanged.
pub fn date(created: &str) -> String {
    const MONTHS: &str = "January February March April May June July August September October November December";
    let parse = || {
        let (day, clock) = created.strip_suffix('Z')?.split_once('T')?;
        let mut parts = day.splitn(3, '-');
        let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
        let number = |t: &str| if t.bytes().all(|b| b.is_ascii_digit()) { t.parse::<usize>().ok() } else { None };
        let month = MONTHS.split(' ').nth(number(month)?.checked_sub(1)?)?;
        let mut clock = clock.split(':');
        let (hour, minute) = (clock.next()?, clock.next()?);
        number(hour).zip(number(minute))?;
        Some(format!("{} {month} {}, {hour}:{minute} UTC", number(day)?, number(year)?))
    };
    parse().unwrap_or_else(|| created.to_owned())
}

/// Formats an RFC 3339 time in UTC as "2026-11-21, 07:00 UTC"; returns other texts unchanged.
pub fn short_date(created: &str) -> String {
    let parse = || {
        let (day, clock) = created.strip_suffix('Z')?.split_once('T')?;
        Some(format!("{day}, {} UTC", clock.get(..5)?))
    };
    parse().unwrap_or_else(|| created.to_owned())
}

/// Returns a file name of letters, digits and hyphens.
pub fn slug(parts: &[&str]) -> String {
    let mut out = String::new();
    for c in parts.join("-").chars() {
        match c {
            _ if out.len() >= 80 => break,
            'a'..='z' | '0'..='9' => out.push(c),
            'A'..='Z' => out.push(c.to_ascii_lowercase()),
            _ if out.ends_with('-') || out.is_empty() => {}
            _ => out.push('-'),
        }
    }
    let out = out.trim_matches('-');
    if out.is_empty() { "warpbook".into() } else { out.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read_or_left() {
        let check = |text: &str, expect: &str| assert_eq!(date(text), expect);
        check("2026-11-21T07:00:00Z", "21 November 2026, 07:00 UTC");
        check("2026-13-21T07:00:00Z", "2026-13-21T07:00:00Z");
        check("2026-11-21T07:00:00+01:00", "2026-11-21T07:00:00+01:00");
        check("<b>now</b>", "<b>now</b>");
        check("", "");
        assert_eq!(short_date("2026-11-21T07:00:00Z"), "2026-11-21, 07:00 UTC");
        assert_eq!(short_date("long ago"), "long ago");
    }

    #[test]
    fn sentences_begin_with_a_capital() {
        assert_eq!(
            [sentence_case("median"), sentence_case("% of bound"), sentence_case("")],
            ["Median", "% of bound", ""]
        );
    }

    #[test]
    fn file_names_are_plain() {
        assert_eq!(slug(&["Regression", "NVIDIA H200", "ladder"]), "regression-nvidia-h200-ladder");
        assert_eq!(slug(&["../../etc/passwd"]), "etc-passwd");
        assert_eq!(slug(&["<>"]), "warpbook");
        assert!(slug(&["x".repeat(500).as_str()]).len() <= 80);
    }
}
