//! The host's code for a launch: the Rust functions that queue an experiment's kernels.

use crate::display::Show;
use crate::display::html::{escape, line_number, printable};
use warpbook_lab::{Error, Result};
use warpbook_record::nearest;

/// The files that launch the lessons' kernels, by their paths below `crates/`.
const FILES: [(&str, &str); 4] = [
    (
        "warpbook-experiments/src/regression/cuda/launch.rs",
        include_str!("../../../../warpbook-experiments/src/regression/cuda/launch.rs"),
    ),
    (
        "warpbook-experiments/src/regression/cuda/launches.rs",
        include_str!("../../../../warpbook-experiments/src/regression/cuda/launches.rs"),
    ),
    (
        "warpbook-experiments/src/regression/cuda/whole.rs",
        include_str!("../../../../warpbook-experiments/src/regression/cuda/whole.rs"),
    ),
    ("warpbook-gemm/src/plan/launch.rs", include_str!("../../../../warpbook-gemm/src/plan/launch.rs")),
];

/// Source of a host function with its line numbers in the file.
///
/// ```
/// use warpbook::prelude::*;
///
/// let queue = HostCode::function("regression/cuda/launches.rs", "queue_epochs")?;
/// assert!(queue.text().contains("self.queue_pass()?"));
/// # Ok::<(), warpbook::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostCode {
    file: &'static str,
    /// Number of the first line, counted from 1.
    first: usize,
    lines: Vec<String>,
}

impl HostCode {
    /// Finds a function, with the comment above it, in the file whose path ends with `path`.
    ///
    /// # Errors
    /// If no file of the lessons has such a path, or the file has no such function.
    pub fn function(path: &str, name: &str) -> Result<Self> {
        let missing = |what: &str, name: &str, known: Vec<&str>| {
            let near: Vec<String> = nearest(name, known).into_iter().map(|n| format!("`{n}`")).collect();
            let hint = if near.is_empty() { String::new() } else { format!(" The nearest are {}.", near.join(", ")) };
            Error::Setting(format!("There is no {what} `{name}`.{hint}"))
        };
        let (file, source) = FILES
            .into_iter()
            .find(|(file, _)| file.ends_with(path))
            .ok_or_else(|| missing("file", path, FILES.iter().map(|(f, _)| *f).collect()))?;
        let lines: Vec<&str> = source.lines().collect();
        let at = lines
            .iter()
            .position(|l| defined(l) == Some(name))
            .ok_or_else(|| missing("function", name, lines.iter().filter_map(|l| defined(l)).collect()))?;
        let above = lines[..at].iter().rev().take_while(|l| l.trim_start().starts_with("///")).count();
        let length = length(&lines[at..]);
        let indent = lines[at].len() - lines[at].trim_start().len();
        let shown = lines[at - above..at + length].iter().map(|l| l.get(indent..).unwrap_or_default().to_owned());
        Ok(Self { file, first: at - above + 1, lines: shown.collect() })
    }

    fn caption(&self) -> String {
        format!("crates/{}, lines {} to {}", self.file, self.first, self.first + self.lines.len() - 1)
    }
}

/// Returns the name of the function that starts on a line.
fn defined(line: &str) -> Option<&str> {
    let (before, after) = line.split_once("fn ")?;
    let is_word = |w: &str| w.starts_with("pub") || matches!(w, "unsafe" | "const" | "in" | "super)" | "crate)");
    let is_head = before.trim().is_empty() || before.split_whitespace().all(|w| is_word(w) || w.ends_with(')'));
    let end = after.find(|c: char| !(c.is_alphanumeric() || c == '_'))?;
    (is_head && end > 0).then(|| &after[..end])
}

/// Returns the number of lines of the function that starts on the first line, up to its closing brace.
fn length(lines: &[&str]) -> usize {
    let mut depth = 0i32;
    for (i, line) in lines.iter().enumerate() {
        depth += line.matches('{').count() as i32 - line.matches('}').count() as i32;
        if depth == 0 && line.contains('}') {
            return i + 1;
        }
    }
    lines.len()
}

impl Show for HostCode {
    fn html(&self) -> String {
        let numbered = |(line, n): (&String, usize)| line_number(&n.to_string()) + &escape(line);
        let code: Vec<String> = self.lines.iter().zip(self.first..).map(numbered).collect();
        format!(
            "<p class=\"wb-faint\"><code>{}</code></p><pre class=\"wb-code\">{}</pre>",
            escape(&self.caption()),
            code.join("\n")
        )
    }

    fn text(&self) -> String {
        let numbered: Vec<String> = self.lines.iter().zip(self.first..).map(|(l, n)| format!("{n:4}  {l}")).collect();
        printable(&format!("{}\n{}", self.caption(), numbered.join("\n")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_shown_whole_and_by_themselves() {
        let check = |path: &str, name: &str, begins: &str, has: &str| {
            let shown = HostCode::function(path, name).unwrap();
            let last = shown.lines.last().unwrap();
            assert!(shown.lines[0].starts_with("//") || shown.lines[0].starts_with(begins), "{:?}", shown.lines[0]);
            assert!(shown.lines.iter().any(|l| l.starts_with(begins)), "{name}: {:?}", shown.lines);
            assert_eq!(last, "}", "{name}");
            assert!(shown.text().contains(has) && shown.html().contains("class=\"wb-n\""), "{}", shown.text());
            assert_eq!(shown.lines.iter().filter(|l| defined(l).is_some()).count(), 1, "{name}: {:?}", shown.lines);
        };
        check("regression/cuda/launch.rs", "pass", "pub(super) fn pass(", "launch_with");
        check("regression/cuda/launch.rs", "descend", "pub(super) fn descend(", "COOPERATIVE");
        check("regression/cuda/launches.rs", "queue_epochs", "fn queue_epochs(", "launch::update");
        check("regression/cuda/launches.rs", "queue_pass", "fn queue_pass(", "stream.wait");
        check("regression/cuda/whole.rs", "ensure_room", "fn ensure_room(", "NoRoom");
    }

    #[test]
    fn what_is_not_there_is_an_error_with_the_nearest_name() {
        let error = |path, name| HostCode::function(path, name).unwrap_err().to_string();
        assert!(error("regression/cuda/launches.rs", "queue_epoch").contains("`queue_epochs`"));
        assert!(error("regression/cuda/launcher.rs", "pass").contains("There is no file"));
    }
}
