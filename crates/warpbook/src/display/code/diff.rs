//! Line-by-line differences between the sources of two kernels.

use crate::display::code::cuda_cpp::highlighted;
use crate::display::html::{details, escape, line_number, printable};
use crate::display::{Show, figures};

/// Number of unchanged lines shown around changed ones.
const CONTEXT: usize = 2;
/// A difference with at least this many changed lines is folded.
const FOLD_FROM: usize = 70;

/// The difference between two sources, line by line.
///
/// ```
/// use warpbook::prelude::*;
///
/// let naive = KernelView::file("matmul/01_naive.cu")?;
/// let coalesced = KernelView::file("matmul/02_coalesced.cu")?;
/// let text = coalesced.since(&naive).text();
/// assert!(text.starts_with("Since the last rung: the threads of a warp run along the columns"), "{text}");
/// assert_eq!(coalesced.since(&naive).counts(), (2, 2));
/// # Ok::<(), warpbook::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelDiff {
    old: String,
    new: String,
    /// The comment in the newer file that describes the change.
    since: Option<String>,
    lines: Vec<Line>,
}

/// A line of the older file, the newer file, or both, with its number in the newer file if the line is there.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Line {
    Same(usize, String),
    Added(usize, String),
    Removed(String),
}

/// The lines of a file, prepared for comparison.
pub(crate) struct Side {
    pub caption: String,
    pub first: usize,
    pub text: String,
}

impl Side {
    /// Returns the lines without the file's opening comment, whose five lines differ in every kernel.
    fn body(&self) -> Vec<(usize, &str)> {
        let numbered = self.text.lines().zip(self.first..).map(|(l, n)| (n, l));
        let opens = self.first == 1;
        numbered.skip_while(|(_, l)| opens && l.starts_with("//")).collect()
    }

    fn since(&self) -> Option<String> {
        let line = self.text.lines().find_map(|l| l.strip_prefix("// Since the last rung: "))?;
        Some(line.to_owned())
    }
}

impl KernelDiff {
    pub(crate) fn new(old: &Side, new: &Side) -> Self {
        Self {
            old: old.caption.clone(),
            new: new.caption.clone(),
            since: new.since(),
            lines: compared(&old.body(), &new.body()),
        }
    }

    /// Returns the number of added lines and the number of removed lines.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        let count = |what: fn(&Line) -> bool| self.lines.iter().filter(|l| what(l)).count();
        (count(|l| matches!(l, Line::Added(..))), count(|l| matches!(l, Line::Removed(_))))
    }

    fn summary(&self) -> String {
        let (added, removed) = self.counts();
        let lines = |n| figures::counted(n, "line");
        format!("{} against {}: {} new, {} gone", self.new, self.old, lines(added), lines(removed))
    }

    /// Returns changed lines with a few lines around them; `None` stands for omitted lines.
    fn shown(&self) -> Vec<Option<&Line>> {
        let changed = |i: usize| self.lines.get(i).is_some_and(|l| !matches!(l, Line::Same(..)));
        let near = |i: usize| (i.saturating_sub(CONTEXT)..=i + CONTEXT).any(changed);
        let mut out = Vec::new();
        for (i, line) in self.lines.iter().enumerate() {
            // A single line takes no more room than the dots that would replace it.
            if near(i) || (i > 0 && near(i - 1) && near(i + 1)) {
                out.push(Some(line));
            } else if out.last().is_some_and(Option::is_some) {
                out.push(None);
            }
        }
        if out.last().is_some_and(Option::is_none) {
            out.pop();
        }
        out
    }
}

/// Compares two texts, with as many lines in common as possible.
fn compared(old: &[(usize, &str)], new: &[(usize, &str)]) -> Vec<Line> {
    // `common[i][j]` is the length of the longest common subsequence of old[i..] and new[j..].
    let mut common = vec![vec![0u32; new.len() + 1]; old.len() + 1];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[i][j] =
                if old[i].1 == new[j].1 { common[i + 1][j + 1] + 1 } else { common[i + 1][j].max(common[i][j + 1]) };
        }
    }
    let (mut i, mut j, mut out) = (0, 0, Vec::new());
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i].1 == new[j].1 {
            out.push(Line::Same(new[j].0, new[j].1.to_owned()));
            (i, j) = (i + 1, j + 1);
        } else if j == new.len() || (i < old.len() && common[i + 1][j] >= common[i][j + 1]) {
            out.push(Line::Removed(old[i].1.to_owned()));
            i += 1;
        } else {
            out.push(Line::Added(new[j].0, new[j].1.to_owned()));
            j += 1;
        }
    }
    out
}

/// Colours one line of CUDA C++; the result has no line number.
fn colours(line: &str) -> String {
    let html = highlighted(line, 0);
    html.strip_prefix(&line_number("0")).unwrap_or(&html).to_owned()
}

impl Show for KernelDiff {
    fn html(&self) -> String {
        let line = |line: &Option<&Line>| match line {
            None => format!("{}<span class=\"wb-c\">...</span>", line_number("")),
            Some(Line::Same(n, text)) => line_number(&n.to_string()) + &colours(text),
            Some(Line::Added(n, text)) => {
                format!("<span class=\"wb-add\">{}{}</span>", line_number(&format!("+{n:5}")), colours(text))
            }
            Some(Line::Removed(text)) => {
                format!("<span class=\"wb-del\">{}{}</span>", line_number("−     "), colours(text))
            }
        };
        let shown = self.shown();
        let code = format!("<pre class=\"wb-code\">{}</pre>", shown.iter().map(line).collect::<Vec<_>>().join("\n"));
        let since = self.since.as_ref().map(|s| format!("<p>Since the last rung: {}</p>", escape(s)));
        let (added, removed) = self.counts();
        let body = match added + removed {
            0 => "<p>Nothing changed.</p>".into(),
            n if n >= FOLD_FROM => details(&self.summary(), &code),
            _ => format!("<p class=\"wb-faint\">{}</p>{code}", escape(&self.summary())),
        };
        since.unwrap_or_default() + &body
    }

    fn text(&self) -> String {
        let line = |line: &Option<&Line>| match line {
            None => "       ...".to_owned(),
            Some(Line::Same(n, text)) => format!("  {n:4} {text}"),
            Some(Line::Added(n, text)) => format!("+ {n:4} {text}"),
            Some(Line::Removed(text)) => format!("-      {text}"),
        };
        let mut parts: Vec<String> = self.since.iter().map(|s| format!("Since the last rung: {s}")).collect();
        parts.push(self.summary());
        parts.extend(self.shown().iter().map(line));
        printable(&parts.join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn side(text: &str, first: usize) -> Side {
        Side { caption: "kernels/a.cu".into(), first, text: text.into() }
    }

    fn diff(old: &str, new: &str) -> KernelDiff {
        KernelDiff::new(&side(old, 1), &side(new, 1))
    }

    #[test]
    fn what_came_and_what_went_is_marked() {
        let d = diff("// Idea: x\na\nb\nc\nd\ne\nf\n", "// Idea: y\n// Since the last rung: B.\na\nB\nc\nd\ne\nf\n");
        assert_eq!(d.counts(), (1, 1));
        let text = d.text();
        assert!(
            text.starts_with("Since the last rung: B.\nkernels/a.cu against kernels/a.cu: 1 line new, 1 line gone\n"),
            "{text}"
        );
        assert!(text.ends_with("     3 a\n-      b\n+    4 B\n     5 c\n     6 d"), "{text}");
        assert!(
            d.html().contains("<span class=\"wb-add\"><span class=\"wb-n\">+    4  </span>B</span>"),
            "{}",
            d.html()
        );
        assert!(diff("a\n", "a\n").html().contains("Nothing changed."));
    }

    #[test]
    fn far_away_lines_are_left_out_and_long_differences_folded() {
        let old: String = (0..30).map(|i| format!("l{i}\n")).collect();
        let new = old.replace("l3\n", "x\n").replace("l20\n", "y\n");
        let text = diff(&old, &new).text();
        assert_eq!(text.matches("...").count(), 1, "{text}");
        assert!(!text.contains("l10") && text.contains("l22") && !text.contains("l23"), "{text}");
        let long: String = (0..100).map(|i| format!("n{i}\n")).collect();
        assert!(diff(&old, &long).html().contains("<details>") && !diff(&old, &new).html().contains("<details>"));
    }

    #[test]
    fn sources_are_escaped() {
        let d = diff("a\n", "</pre><script>\u{1b}[2J\n");
        assert!(!d.html().contains("<script") && !d.html().contains('\u{1b}') && !d.text().contains('\u{1b}'));
    }

    proptest! {
        #[test]
        fn both_texts_can_be_had_back(
            old in proptest::collection::vec("[abc]", 0..12), new in proptest::collection::vec("[abc]", 0..12)
        ) {
            let d = diff(&old.join("\n"), &new.join("\n"));
            let keep = |without: fn(&Line) -> bool| -> Vec<String> {
                d.lines.iter().filter(|l| !without(l)).map(|l| match l {
                    Line::Same(_, t) | Line::Added(_, t) | Line::Removed(t) => t.clone(),
                }).collect()
            };
            prop_assert_eq!(keep(|l| matches!(l, Line::Added(..))), old);
            prop_assert_eq!(keep(|l| matches!(l, Line::Removed(_))), new);
        }
    }
}
