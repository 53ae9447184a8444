//! CUDA C++ taken apart, as far as colours and line counts need it.

use super::html::escape;

/// What a piece of source is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Plain,
    Comment,
    Text,
    Directive,
    Keyword,
    Type,
    Builtin,
    Number,
}

impl Kind {
    fn class(self) -> Option<&'static str> {
        Some(match self {
            Self::Plain => return None,
            Self::Comment => "wb-c",
            Self::Text => "wb-s",
            Self::Directive => "wb-p",
            Self::Keyword => "wb-k",
            Self::Type => "wb-t",
            Self::Builtin => "wb-b",
            Self::Number => "wb-d",
        })
    }
}

const KEYWORDS: &[&str] = &[
    "__cluster_dims__",
    "__constant__",
    "__device__",
    "__forceinline__",
    "__global__",
    "__grid_constant__",
    "__host__",
    "__inline__",
    "__launch_bounds__",
    "__managed__",
    "__noinline__",
    "__restrict__",
    "__shared__",
    "alignas",
    "alignof",
    "asm",
    "auto",
    "break",
    "case",
    "class",
    "const",
    "const_cast",
    "constexpr",
    "continue",
    "decltype",
    "default",
    "delete",
    "do",
    "else",
    "enum",
    "explicit",
    "extern",
    "false",
    "for",
    "friend",
    "goto",
    "if",
    "inline",
    "mutable",
    "namespace",
    "new",
    "noexcept",
    "nullptr",
    "operator",
    "private",
    "protected",
    "public",
    "register",
    "reinterpret_cast",
    "return",
    "sizeof",
    "static",
    "static_assert",
    "static_cast",
    "struct",
    "switch",
    "template",
    "this",
    "true",
    "typedef",
    "typename",
    "union",
    "using",
    "virtual",
    "volatile",
    "while",
];

const TYPES: &[&str] = &[
    "bool",
    "char",
    "double",
    "float",
    "half",
    "half2",
    "int",
    "long",
    "short",
    "signed",
    "size_t",
    "unsigned",
    "void",
    "__half",
    "__half2",
    "__nv_bfloat16",
    "__nv_bfloat162",
    "__nv_fp8_e4m3",
    "__nv_fp8_e5m2",
    "dim3",
    "ptrdiff_t",
    "wchar_t",
];

const BUILTINS: &[&str] = &[
    "threadIdx",
    "blockIdx",
    "blockDim",
    "gridDim",
    "warpSize",
    "fma",
    "fmaf",
    "min",
    "max",
    "fminf",
    "fmaxf",
    "rsqrtf",
    "sqrtf",
    "expf",
    "logf",
    "sinf",
    "cosf",
    "sincosf",
    "clock",
    "clock64",
    "printf",
    "assert",
];

/// `float4`, `uint2`, `int8_t` and the like.
fn is_vector_or_sized(word: &str) -> bool {
    let sized = |stem: &str| matches!(stem, "int8" | "int16" | "int32" | "int64" | "intptr");
    if let Some(stem) = word.strip_suffix("_t") {
        return sized(stem.strip_prefix('u').unwrap_or(stem));
    }
    let stem = word.trim_end_matches(['1', '2', '3', '4']);
    let signed = stem.strip_prefix('u').unwrap_or(stem);
    word.len() == stem.len() + 1
        && (matches!(signed, "char" | "short" | "int" | "long" | "longlong") || matches!(stem, "float" | "double"))
}

fn kind_of(word: &str) -> Kind {
    match word {
        w if KEYWORDS.contains(&w) => Kind::Keyword,
        w if TYPES.contains(&w) || is_vector_or_sized(w) => Kind::Type,
        w if BUILTINS.contains(&w) => Kind::Builtin,
        // CUDA's own functions are written so: __shfl_xor_sync, __syncthreads, atomicAdd.
        w if w.starts_with("__") && w.len() > 2 && !w.ends_with("__") => Kind::Builtin,
        w if w.strip_prefix("atomic").is_some_and(|r| r.starts_with(|c: char| c.is_ascii_uppercase())) => Kind::Builtin,
        _ => Kind::Plain,
    }
}

/// The pieces of a source; put together they are the source, to the byte.
pub(super) fn pieces(source: &str) -> Vec<(Kind, &str)> {
    let mut all = Vec::new();
    let mut rest = source;
    let mut line_start = true;
    // Within a directive, until its line ends.
    let mut directive = false;
    while let Some(first) = rest.chars().next() {
        let (kind, length) = if rest.starts_with("//") {
            (Kind::Comment, to_line_end(rest))
        } else if let Some(inside) = rest.strip_prefix("/*") {
            (Kind::Comment, inside.find("*/").map_or(rest.len(), |at| at + 4))
        } else if first == '#' && line_start {
            directive = true;
            let word = rest[1..].trim_start_matches([' ', '\t']);
            let blanks = rest.len() - 1 - word.len();
            let word = run(word, |c| c.is_ascii_alphanumeric());
            let head = 1 + blanks + word;
            // The words of a pragma are none of the language's.
            let whole = &rest[1 + blanks..head] == "pragma";
            (Kind::Directive, if whole { pragma_end(rest) } else { head })
        } else if let Some(length) = raw_string(rest) {
            (Kind::Text, length)
        } else if first == '"' || first == '\'' {
            (Kind::Text, quoted(rest, first))
        } else if directive && first == '<' && ends_with_include(&all) {
            (Kind::Text, rest.find(['>', '\n']).map_or(rest.len(), |at| at + usize::from(rest[at..].starts_with('>'))))
        } else if first.is_ascii_digit() || (first == '.' && rest[1..].starts_with(|c: char| c.is_ascii_digit())) {
            (Kind::Number, number(rest))
        } else if first.is_alphabetic() || first == '_' {
            let length = run(rest, |c| c.is_alphanumeric() || c == '_');
            (kind_of(&rest[..length]), length)
        } else {
            (Kind::Plain, first.len_utf8())
        };
        let (piece, after) = rest.split_at(length);
        // A break after a backslash continues the directive.
        let continued = directive && first == '\n' && all.last().is_some_and(|(_, p): &(Kind, &str)| p.ends_with('\\'));
        if first == '\n' && !continued {
            directive = false;
        }
        line_start = first == '\n' || (line_start && (first.is_whitespace() || kind == Kind::Comment));
        match all.last_mut() {
            // Fewer spans: neighbours of one kind that stand beside each other in the source are one.
            Some((Kind::Plain, last)) if kind == Kind::Plain => {
                let start = source.len() - rest.len() - last.len();
                *last = &source[start..start + last.len() + piece.len()];
            }
            _ => all.push((kind, piece)),
        }
        rest = after;
    }
    all
}

fn run(text: &str, wanted: impl Fn(char) -> bool) -> usize {
    text.find(|c| !wanted(c)).unwrap_or(text.len())
}

/// Up to a line's end that no backslash continues.
fn to_line_end(text: &str) -> usize {
    let mut from = 0;
    while let Some(at) = text[from..].find('\n').map(|at| from + at) {
        if !text[..at].trim_end_matches('\r').ends_with('\\') {
            return at;
        }
        from = at + 1;
    }
    text.len()
}

fn pragma_end(text: &str) -> usize {
    let end = to_line_end(text);
    text[..end].find("//").unwrap_or(end)
}

/// A string or character up to its closing quote, or to the end of a line where there is none.
fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '\n' => return at,
            c if c == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// The length of a raw string, if one begins here: `R"mark( ... )mark"`.
fn raw_string(text: &str) -> Option<usize> {
    let rest = text.strip_prefix("R\"")?;
    let open = rest.find(['(', ' ', ')', '\\', '\n', '"']).filter(|at| rest[*at..].starts_with('(') && *at <= 16)?;
    let close = format!("){}\"", &rest[..open]);
    Some(rest[open..].find(&close).map_or(text.len(), |at| 2 + open + at + close.len()))
}

fn number(text: &str) -> usize {
    let hex = text.starts_with("0x") || text.starts_with("0X");
    let mut last = ' ';
    let end = text.char_indices().find(|&(_, c)| {
        let exponent = if hex { matches!(last, 'p' | 'P') } else { matches!(last, 'e' | 'E') };
        let part = c.is_ascii_alphanumeric() || c == '.' || c == '\'' || (exponent && (c == '+' || c == '-'));
        last = c;
        !part
    });
    end.map_or(text.len(), |(at, _)| at)
}

fn ends_with_include(pieces: &[(Kind, &str)]) -> bool {
    let mut back = pieces.iter().rev().skip_while(|(_, text)| text.trim().is_empty());
    back.next().is_some_and(|(kind, text)| *kind == Kind::Directive && text.ends_with("include"))
}

/// The source as HTML, for a `<pre>`: its lines are numbered from `first_line`.
pub(super) fn highlighted(source: &str, first_line: usize) -> String {
    let mut line = first_line;
    let mut out = format!("<span class=\"wb-n\" data-n=\"{line}\"></span>");
    for (kind, text) in pieces(source) {
        if let Some(class) = kind.class() {
            out += &format!("<span class=\"{class}\">");
        }
        for (i, part) in text.split('\n').enumerate() {
            if i > 0 {
                line += 1;
                out += &format!("\n<span class=\"wb-n\" data-n=\"{line}\"></span>");
            }
            out += &escape(part);
        }
        if kind.class().is_some() {
            out += "</span>";
        }
    }
    out
}

/// The source with each comment replaced by blanks of its length, line breaks kept.
pub(super) fn without_comments(source: &str) -> String {
    let blank =
        |text: &str| text.chars().map(|c| if c == '\n' { "\n".into() } else { " ".repeat(c.len_utf8()) }).collect();
    pieces(source).into_iter().map(|(k, t)| if k == Kind::Comment { blank(t) } else { t.to_owned() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What a browser's textContent of it would be.
    fn text_content(html: &str) -> String {
        let mut out = String::new();
        let mut rest = html;
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
    fn pieces_have_their_kinds() {
        let check = |source: &str, expect: &[(Kind, &str)]| {
            let got: Vec<_> = pieces(source).into_iter().filter(|(k, _)| *k != Kind::Plain).collect();
            assert_eq!(got, expect, "{source}");
        };
        check(
            "__global__ void k(float4* x)",
            &[(Kind::Keyword, "__global__"), (Kind::Type, "void"), (Kind::Type, "float4")],
        );
        check("v += __shfl_xor_sync(m, v, 1);", &[(Kind::Builtin, "__shfl_xor_sync"), (Kind::Number, "1")]);
        check(
            "threadIdx.x + 0xffffffffu - 1.5e-3f",
            &[(Kind::Builtin, "threadIdx"), (Kind::Number, "0xffffffffu"), (Kind::Number, "1.5e-3f")],
        );
        check("\"// no \\\" comment\" // one", &[(Kind::Text, "\"// no \\\" comment\""), (Kind::Comment, "// one")]);
        check("/* a\n\" */ 'x'", &[(Kind::Comment, "/* a\n\" */"), (Kind::Text, "'x'")]);
        check("#include <a.h> // c", &[(Kind::Directive, "#include"), (Kind::Text, "<a.h>"), (Kind::Comment, "// c")]);
        check("#pragma unroll 4\nint", &[(Kind::Directive, "#pragma unroll 4"), (Kind::Type, "int")]);
        check("R\"(\" // )\" int", &[(Kind::Text, "R\"(\" // )\""), (Kind::Type, "int")]);
        check("a < b; atomicAdd(p); uint32_t int5", &[(Kind::Builtin, "atomicAdd"), (Kind::Type, "uint32_t")]);
        check("1'000", &[(Kind::Number, "1'000")]);
    }

    #[test]
    fn every_kernel_of_the_house_survives() {
        for (kernel, _) in warpbook_record::kernels::all() {
            assert_eq!(text_content(&highlighted(&kernel.source, 1)), *kernel.source, "{}", kernel.file);
        }
    }

    #[test]
    fn lines_are_numbered_also_within_comments() {
        let html = highlighted("/* a\nb */\nc", 41);
        for n in 41..=43 {
            assert!(html.contains(&format!("data-n=\"{n}\"")), "{html}");
        }
        assert!(!html.contains("data-n=\"44\""));
    }
}
