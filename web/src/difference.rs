//! What differs between two sources, line by line, as the page shows it.

use similar::{Algorithm, DiffOp, capture_diff_slices};
use warpbook_charts::highlight::{Token, lines};

/// Lines around a change that are shown with it.
const CONTEXT: usize = 3;
/// Longer files are not compared: the time grows with the product of length and changes.
const MAX_LINES: usize = 4000;

/// What became of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// In both.
    Same,
    /// Only in the later.
    Added,
    /// Only in the earlier.
    Removed,
}

/// A line, or lines that are left out.
#[derive(Debug, Clone, PartialEq)]
pub enum Piece<'a> {
    /// A line, its number in its own file, and its tokens.
    Line(Kind, usize, Vec<Token<'a>>),
    /// So many lines that are the same.
    Skipped(usize),
}

/// See [`difference`].
#[derive(Debug, Clone, PartialEq)]
pub struct Difference<'a> {
    /// Lines only in the later.
    pub added: usize,
    /// Lines only in the earlier.
    pub removed: usize,
    /// In the order of the files.
    pub pieces: Vec<Piece<'a>>,
}

/// The later source with what was added and removed; unchanged lines that are far from a change are left out. `None` of sources that
/// are too long to compare.
pub fn difference<'a>(before: &'a str, after: &'a str) -> Option<Difference<'a>> {
    let texts = [before, after].map(|text| text.lines().collect::<Vec<&str>>());
    if texts.iter().any(|t| t.len() > MAX_LINES) {
        return None;
    }
    let [old, new] = [before, after].map(|text| if text.is_empty() { Vec::new() } else { lines(text) });
    let mut all = Vec::new();
    let mut put = |kind, from: &[Vec<Token<'a>>], range: std::ops::Range<usize>| {
        let each = range.filter_map(|i| Some(Piece::Line(kind, i + 1, from.get(i)?.clone())));
        all.extend(each);
    };
    for op in capture_diff_slices(Algorithm::Myers, &texts[0], &texts[1]) {
        match op {
            DiffOp::Equal { .. } => put(Kind::Same, &new, op.new_range()),
            _ => {
                put(Kind::Removed, &old, op.old_range());
                put(Kind::Added, &new, op.new_range());
            }
        }
    }
    let count = |kind| all.iter().filter(|p| matches!(p, Piece::Line(k, ..) if *k == kind)).count();
    let (added, removed) = (count(Kind::Added), count(Kind::Removed));
    Some(Difference { added, removed, pieces: near_changes(all) })
}

/// Leaves out what is the same and more than [`CONTEXT`] lines from a change.
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
        // A comment over lines keeps its colour where only its middle is shown.
        let comment = difference("/*\na\n*/", "/*\nb\n*/").unwrap();
        let kinds = comment.pieces.iter().filter_map(|p| match p {
            Piece::Line(_, _, tokens) => tokens.first().map(|t| t.kind),
            Piece::Skipped(_) => None,
        });
        assert!(kinds.into_iter().all(|k| k == warpbook_charts::highlight::Kind::Comment));
    }

    #[test]
    fn long_sources_are_not_compared() {
        assert!(difference("x", &"a\n".repeat(MAX_LINES + 1)).is_none());
    }
}
