//! Line-by-line differences between two sources.

use warpbook_charts::highlight::{Token, lines};

/// The number of unchanged lines shown around a change.
const CONTEXT: usize = 3;
/// The maximum number of pairs of lines to compare: a thousand changed lines in each file.
const MAX_PAIRS: usize = 1_000_000;

/// The sources, of the two, that contain a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The line is in both sources.
    Same,
    /// The line is only in the later source.
    Added,
    /// The line is only in the earlier source.
    Removed,
}

/// A line of the difference, or a gap.
#[derive(Debug, Clone, PartialEq)]
pub enum Piece<'a> {
    /// A line with its number in its own file and its tokens.
    Line(Kind, usize, Vec<Token<'a>>),
    /// The number of unchanged lines left out.
    Skipped(usize),
}

/// The result of [`difference`].
#[derive(Debug, Clone, PartialEq)]
pub struct Difference<'a> {
    /// The number of lines only in the later source.
    pub added: usize,
    /// The number of lines only in the earlier source.
    pub removed: usize,
    /// The lines and gaps in the order of the files.
    pub pieces: Vec<Piece<'a>>,
}

/// Compares two sources and marks added and removed lines; unchanged lines far from a change are left out. Returns
/// `None` if the sources are too long to compare.
pub fn difference<'a>(before: &'a str, after: &'a str) -> Option<Difference<'a>> {
    let texts = [before, after].map(|text| text.lines().collect::<Vec<&str>>());
    let steps = steps(&texts[0], &texts[1])?;
    let [old, new] = [before, after].map(|text| if text.is_empty() { Vec::new() } else { lines(text) });
    let line = |(kind, i): (Kind, usize)| {
        let from = if kind == Kind::Removed { &old } else { &new };
        Some(Piece::Line(kind, i + 1, from.get(i)?.clone()))
    };
    let all: Vec<Piece<'_>> = steps.into_iter().filter_map(line).collect();
    let count = |kind| all.iter().filter(|p| matches!(p, Piece::Line(k, ..) if *k == kind)).count();
    let (added, removed) = (count(Kind::Added), count(Kind::Removed));
    Some(Difference { added, removed, pieces: near_changes(all) })
}

/// Returns the lines of both sources in display order, each with its index in its own file. Uses a longest common
/// subsequence; removed lines precede added ones.
fn steps(old: &[&str], new: &[&str]) -> Option<Vec<(Kind, usize)>> {
    let head = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let (a, b) = (&old[head..], &new[head..]);
    let tail = a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count();
    let (a, b) = (&a[..a.len() - tail], &b[..b.len() - tail]);
    let width = b.len() + 1;
    if a.len().checked_mul(b.len()).is_none_or(|pairs| pairs > MAX_PAIRS) {
        return None;
    }
    // `common[i, j]` is the length of the longest common subsequence of the lines from i and from j on.
    let mut common = vec![0_u32; (a.len() + 1) * width];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            let (down, right) = (common[(i + 1) * width + j], common[i * width + j + 1]);
            common[i * width + j] = if a[i] == b[j] { common[(i + 1) * width + j + 1] + 1 } else { down.max(right) };
        }
    }
    let mut out: Vec<(Kind, usize)> = (0..head).map(|i| (Kind::Same, i)).collect();
    let (mut i, mut j) = (0, 0);
    while i < a.len() || j < b.len() {
        let is_same = i < a.len() && j < b.len() && a[i] == b[j];
        let removes = j == b.len() || (i < a.len() && common[(i + 1) * width + j] >= common[i * width + j + 1]);
        match () {
            () if is_same => out.push((Kind::Same, head + j)),
            () if removes => out.push((Kind::Removed, head + i)),
            () => out.push((Kind::Added, head + j)),
        }
        i += usize::from(is_same || removes);
        j += usize::from(is_same || !removes);
    }
    out.extend((new.len() - tail..new.len()).map(|i| (Kind::Same, i)));
    Some(out)
}

/// Leaves out unchanged lines more than [`CONTEXT`] lines away from a change.
fn near_changes(all: Vec<Piece<'_>>) -> Vec<Piece<'_>> {
    let is_change: Vec<bool> = all.iter().map(|p| !matches!(p, Piece::Line(Kind::Same, ..))).collect();
    let is_near = |i: usize| {
        let around = i.saturating_sub(CONTEXT)..(i + CONTEXT + 1).min(is_change.len());
        is_change[around].contains(&true)
    };
    let mut out: Vec<Piece<'_>> = Vec::new();
    for (i, piece) in all.into_iter().enumerate() {
        match out.last_mut() {
            _ if is_near(i) => out.push(piece),
            Some(Piece::Skipped(n)) => *n += 1,
            _ => out.push(Piece::Skipped(1)),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(before: &str, after: &str) -> Vec<String> {
        let text = |tokens: &[Token<'_>]| tokens.iter().map(|t| t.text).collect::<String>();
        let pieces = difference(before, after).unwrap().pieces;
        let show = |p: &Piece<'_>| match p {
            Piece::Line(Kind::Same, n, t) => format!(" {n} {}", text(t)),
            Piece::Line(Kind::Added, n, t) => format!("+{n} {}", text(t)),
            Piece::Line(Kind::Removed, n, t) => format!("-{n} {}", text(t)),
            Piece::Skipped(n) => format!("~{n}"),
        };
        pieces.iter().map(show).collect()
    }

    #[test]
    fn changes_are_shown_with_what_is_around_them() {
        let before: String = (1..=20).map(|i| format!("int a{i};\n")).collect();
        let after = before.replace("int a10;\n", "int b;\nint c;\r\n");
        let expect = [
            "~6",
            " 7 int a7;",
            " 8 int a8;",
            " 9 int a9;",
            "-10 int a10;",
            "+10 int b;",
            "+11 int c;",
            " 12 int a11;",
            " 13 int a12;",
            " 14 int a13;",
            "~7",
        ];
        assert_eq!(shown(&before, &after), expect);
        let both = difference(&before, &after).unwrap();
        assert_eq!((both.added, both.removed), (2, 1));
    }

    #[test]
    fn the_same_and_nothing_are_compared_too() {
        assert_eq!(shown("a\nb\n", "a\nb\n"), ["~2"]);
        assert_eq!(shown("", "a\nb"), ["+1 a", "+2 b"]);
        assert_eq!(shown("a\n\nb", ""), ["-1 a", "-2 ", "-3 b"]);
        assert!(shown("", "").is_empty());
        // A comment over several lines keeps its colour even if only its middle is shown.
        let comment = difference("/*\na\n*/", "/*\nb\n*/").unwrap();
        let kinds = comment.pieces.iter().filter_map(|p| match p {
            Piece::Line(_, _, tokens) => tokens.first().map(|t| t.kind),
            Piece::Skipped(_) => None,
        });
        assert!(kinds.into_iter().all(|k| k == warpbook_charts::highlight::Kind::Comment));
    }

    #[test]
    fn long_sources_are_not_compared() {
        let different = |what: &str| (0..1100).map(|i| format!("{what} {i}\n")).collect::<String>();
        assert!(difference(&different("a"), &different("b")).is_none());
        // Long sources with few differences can be compared.
        let (one, other) = (different("a"), different("a").replace("a 500\n", "b\n"));
        assert_eq!(difference(&one, &other).map(|d| (d.added, d.removed)), Some((1, 1)));
    }
}
