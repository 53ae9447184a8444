//! Conversion of CUDA C++ source to highlighted HTML.

use crate::display::html::{escape, line_number};
use warpbook_charts::highlight::{Kind, tokens};

fn class(kind: Kind) -> Option<&'static str> {
    Some(match kind {
        Kind::Plain | Kind::Predefined | Kind::Function => return None,
        Kind::Comment => "wb-c",
        Kind::Text => "wb-s",
        Kind::Directive => "wb-p",
        Kind::Keyword | Kind::Qualifier => "wb-k",
        Kind::Type => "wb-t",
        Kind::Builtin | Kind::Library => "wb-b",
        Kind::Number => "wb-d",
    })
}

/// Returns the source as HTML for a `<pre>`, with line numbers starting at `first_line`.
pub(crate) fn highlighted(source: &str, first_line: usize) -> String {
    let mut line = first_line;
    let mut out = line_number(&line.to_string());
    for (kind, text) in tokens(source) {
        let class = class(kind);
        if let Some(class) = class {
            out += &format!("<span class=\"{class}\">");
        }
        for (i, part) in text.split('\n').enumerate() {
            if i > 0 {
                line += 1;
                out += &format!("\n{}", line_number(&line.to_string()));
            }
            out += &escape(part);
        }
        if class.is_some() {
            out += "</span>";
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use warpbook_charts::highlight::without_comments;

    /// Returns the `textContent` that a browser would give this HTML, without the line numbers.
    fn text_content(html: &str) -> String {
        let unnumbered = |part: &str| part.split_once("</span>").unwrap().1.to_owned();
        let html: String = html.split("<span class=\"wb-n\">").skip(1).map(unnumbered).collect();
        let mut out = String::new();
        let mut rest = &*html;
        while let Some((before, after)) = rest.split_once('<') {
            out += before;
            rest = after.split_once('>').unwrap().1;
        }
        out += rest;
        [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")]
            .iter()
            .fold(out, |text, (from, to)| text.replace(from, to))
    }

    proptest! {
        #[test]
        fn the_text_stays_as_it_is(source in "[ -~\n\t\u{e4}\u{4e16}]{0,120}") {
            prop_assert_eq!(text_content(&highlighted(&source, 1)), source);
        }

        #[test]
        fn the_text_of_things_like_code_stays_as_it_is(
            parts in proptest::collection::vec(
                prop_oneof!["\"", "'", "/\\*", "\\*/", "//", "\\\\", "\n", "#include <", "#pragma", "R\"", "R\"a\\(", "\\)a\"",
                    "0x1p-3", "1e+", "__syncthreads", "float4", "é", "<", "&amp;", " "], 0..20)
        ) {
            let source = parts.concat();
            prop_assert_eq!(text_content(&highlighted(&source, 1)), source.clone());
            prop_assert_eq!(without_comments(&source).len(), source.len());
            prop_assert_eq!(without_comments(&source).matches('\n').count(), source.matches('\n').count());
        }
    }

    #[test]
    fn every_kernel_of_the_house_survives() {
        for (kernel, _) in warpbook_kernels::all() {
            assert_eq!(text_content(&highlighted(&kernel.source, 1)), *kernel.source, "{}", kernel.file);
        }
    }

    #[test]
    fn lines_are_numbered_also_within_comments() {
        let html = highlighted("/* a\nb */\nc", 41);
        for n in 41..=43 {
            assert!(html.contains(&line_number(&n.to_string())), "{html}");
        }
        assert!(!html.contains(&line_number("44")));
    }
}
