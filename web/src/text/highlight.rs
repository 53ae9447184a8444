//! Style classes for coloured CUDA C++, and the includes of a source.

use warpbook_charts::highlight::Kind;
pub use warpbook_charts::highlight::lines;

/// Returns the style class of a token.
pub const fn class(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::Plain => None,
        Kind::Comment => Some("hl-comment"),
        Kind::Directive => Some("hl-preprocessor"),
        Kind::Text => Some("hl-text"),
        Kind::Number => Some("hl-number"),
        Kind::Keyword => Some("hl-keyword"),
        Kind::Type => Some("hl-type"),
        Kind::Qualifier | Kind::Builtin | Kind::Predefined => Some("hl-cuda"),
        Kind::Library | Kind::Function => Some("hl-function"),
    }
}

/// Returns the names of the files that a source includes, in order.
pub fn includes(source: &str) -> Vec<&str> {
    let name = |line: &'_ str| -> Option<(usize, usize)> {
        let directive = line.trim_start().strip_prefix('#')?.trim_start().strip_prefix("include")?;
        let open = directive.find('"')? + 1;
        let close = directive[open..].find('"')?;
        let start = line.len() - directive.len() + open;
        Some((start, start + close))
    };
    source.lines().filter_map(|l| name(l).map(|(start, end)| &l[start..end])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn included_files_are_found() {
        assert_eq!(
            includes("#include \"a.cuh\"\n # include  \"b/c.cuh\" // d\n#include <e>\n// x"),
            ["a.cuh", "b/c.cuh"]
        );
        assert!(includes("#include \"open").is_empty());
    }
}
