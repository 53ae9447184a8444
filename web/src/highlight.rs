//! CUDA C++ cut into tokens, so that a page can colour it. Every character of the text is in exactly one token.

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Names, operators and white space.
    Plain,
    /// A comment.
    Comment,
    /// A line that begins with `#`.
    Preprocessor,
    /// A string or a character.
    Text,
    /// A number.
    Number,
    /// A word of the language.
    Keyword,
    /// A type.
    Type,
    /// A word or a built-in of CUDA.
    Cuda,
    /// A name before a parenthesis.
    Function,
}

impl Kind {
    /// The class of its element.
    pub const fn class(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Comment => Some("hl-comment"),
            Self::Preprocessor => Some("hl-preprocessor"),
            Self::Text => Some("hl-text"),
            Self::Number => Some("hl-number"),
            Self::Keyword => Some("hl-keyword"),
            Self::Type => Some("hl-type"),
            Self::Cuda => Some("hl-cuda"),
            Self::Function => Some("hl-function"),
        }
    }
}

/// A piece of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token<'a> {
    /// What it is.
    pub kind: Kind,
    /// Its text, without line breaks.
    pub text: &'a str,
}

const KEYWORDS: &[&str] = &[
    "alignas",
    "alignof",
    "asm",
    "auto",
    "break",
    "case",
    "catch",
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
    "namespace",
    "new",
    "noexcept",
    "nullptr",
    "operator",
    "private",
    "protected",
    "public",
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
    "throw",
    "true",
    "try",
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
    "wchar_t",
    "dim3",
    "cudaStream_t",
    "nv_bfloat16",
    "nv_bfloat162",
    "clock_t",
];

const CUDA: &[&str] = &["threadIdx", "blockIdx", "blockDim", "gridDim", "warpSize"];

/// The lines of a source, each as tokens.
pub fn lines(source: &str) -> Vec<Vec<Token<'_>>> {
    let mut out = vec![Vec::new()];
    for (kind, text) in tokens(source) {
        for (i, part) in text.split('\n').enumerate() {
            if i > 0 {
                out.push(Vec::new());
            }
            let part = part.strip_suffix('\r').unwrap_or(part);
            if !part.is_empty() {
                out.last_mut().expect("begins with one line").push(Token { kind, text: part });
            }
        }
    }
    // A file ends with a line break, not with an empty line.
    if out.len() > 1 && out.last().is_some_and(Vec::is_empty) {
        out.pop();
    }
    out
}

/// The tokens of a source, line breaks among them.
fn tokens(source: &str) -> Vec<(Kind, &str)> {
    let mut out: Vec<(Kind, &str)> = Vec::new();
    let mut at = 0;
    let mut line_start = true;
    while at < source.len() {
        let rest = &source[at..];
        let (kind, length) = token(rest, line_start);
        let text = &rest[..length];
        // Only white space may stand before a directive.
        line_start = text.rfind('\n').map_or(line_start, |_| true) && text.rsplit('\n').next().is_some_and(is_blank);
        match out.last_mut() {
            // Neighbours of no colour become one.
            Some((Kind::Plain, last)) if kind == Kind::Plain => *last = &source[at - last.len()..at + length],
            _ => out.push((kind, text)),
        }
        at += length;
    }
    out
}

fn is_blank(text: &str) -> bool {
    text.chars().all(char::is_whitespace)
}

/// The kind and the length of the token that a text begins with.
fn token(rest: &str, line_start: bool) -> (Kind, usize) {
    let first = rest.chars().next().unwrap_or(' ');
    if rest.starts_with("//") {
        return (Kind::Comment, rest.find('\n').unwrap_or(rest.len()));
    }
    if let Some(inside) = rest.strip_prefix("/*") {
        return (Kind::Comment, inside.find("*/").map_or(rest.len(), |e| e + 4));
    }
    if first == '#' && line_start {
        return (Kind::Preprocessor, directive(rest));
    }
    if let Some(length) = raw_string(rest) {
        return (Kind::Text, length);
    }
    if first == '"' || first == '\'' {
        return (Kind::Text, quoted(rest, first));
    }
    if first.is_ascii_digit() || (first == '.' && rest[1..].starts_with(|c: char| c.is_ascii_digit())) {
        return (Kind::Number, number(rest));
    }
    if first.is_ascii_alphabetic() || first == '_' {
        let length = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        return (word(&rest[..length], &rest[length..]), length);
    }
    (Kind::Plain, first.len_utf8())
}

/// A directive goes on after a backslash at a line's end and stops before a comment.
fn directive(rest: &str) -> usize {
    let mut previous = ' ';
    for (i, c) in rest.char_indices() {
        let comment = rest[i..].starts_with("//") || rest[i..].starts_with("/*");
        if comment || (c == '\n' && previous != '\\') {
            return i;
        }
        if c != '\r' {
            previous = c;
        }
    }
    rest.len()
}

/// `R"delimiter(...)delimiter"`.
fn raw_string(rest: &str) -> Option<usize> {
    let inner = rest.strip_prefix("R\"")?;
    let open = inner.find('(').filter(|o| *o <= 16)?;
    let end = format!("){}\"", &inner[..open]);
    Some(inner.find(&end).map_or(rest.len(), |e| 2 + e + end.len()))
}

/// Up to the closing quote, or to the line's end where there is none.
fn quoted(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (i, c) in rest.char_indices().skip(1) {
        match c {
            '\n' => return i,
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == quote => return i + 1,
            _ => {}
        }
    }
    rest.len()
}

fn number(rest: &str) -> usize {
    let mut previous = ' ';
    for (i, c) in rest.char_indices() {
        let hex = rest.starts_with("0x") || rest.starts_with("0X");
        let sign = (c == '+' || c == '-') && (matches!(previous, 'p' | 'P') || (!hex && matches!(previous, 'e' | 'E')));
        if !(c.is_ascii_alphanumeric() || c == '.' || c == '\'' || c == '_' || sign) {
            return i;
        }
        previous = c;
    }
    rest.len()
}

fn word(name: &str, after: &str) -> Kind {
    let vector = || {
        let base = name.trim_end_matches(|c: char| c.is_ascii_digit());
        name.len() == base.len() + 1
            && matches!(base, "float" | "double" | "int" | "uint" | "char" | "uchar" | "short" | "ushort" | "longlong")
    };
    if KEYWORDS.contains(&name) {
        Kind::Keyword
    } else if TYPES.contains(&name) || vector() || (name.ends_with("_t") && name.contains("int")) {
        Kind::Type
    } else if CUDA.contains(&name) || name.starts_with("__") {
        Kind::Cuda
    } else if after.starts_with('(') {
        Kind::Function
    } else {
        Kind::Plain
    }
}

/// The files that a source includes by name, in their order.
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

    fn check(source: &str, expect: &[(Kind, &str)]) {
        let coloured: Vec<_> = tokens(source).into_iter().filter(|(k, _)| *k != Kind::Plain).collect();
        assert_eq!(coloured, expect, "{source}");
    }

    #[test]
    fn words_numbers_and_comments_are_told_apart() {
        use Kind::*;
        check("const float4 v; // a \"b\"\n", &[(Keyword, "const"), (Type, "float4"), (Comment, "// a \"b\"")]);
        check("__global__ void f(int n)", &[(Cuda, "__global__"), (Type, "void"), (Function, "f"), (Type, "int")]);
        check("x = 1.5e-3f + 0xFFu - .5", &[(Number, "1.5e-3f"), (Number, "0xFFu"), (Number, ".5")]);
        check("a = 0xE-b", &[(Number, "0xE")]);
        check("\"a\\\"b\" 'c'", &[(Text, "\"a\\\"b\""), (Text, "'c'")]);
        check("\"open\nint", &[(Text, "\"open"), (Type, "int")]);
        check("R\"x(a\")x\" int", &[(Text, "R\"x(a\")x\""), (Type, "int")]);
        check("a /* b\nc */ int", &[(Comment, "/* b\nc */"), (Type, "int")]);
        check("/* open", &[(Comment, "/* open")]);
        check(
            "  #define A 1 \\\n  2 // c\nint",
            &[(Preprocessor, "#define A 1 \\\n  2 "), (Comment, "// c"), (Type, "int")],
        );
        check("a # b", &[]);
        check("threadIdx.x + uint64_t", &[(Cuda, "threadIdx"), (Type, "uint64_t")]);
    }

    #[test]
    fn no_character_is_lost() {
        for source in
            ["", "\n", "a\r\nb", "\u{1f600}\"\u{e9}'", "/*\n\n*/x", "R\"(", "#", "'", "\\", "<script>alert(1)</script>"]
        {
            let joined: String = tokens(source).iter().map(|(_, t)| *t).collect();
            assert_eq!(joined, source);
            let joined: Vec<String> =
                lines(source).iter().map(|l| l.iter().map(|t| t.text).collect::<String>()).collect();
            let expect: Vec<&str> = if source.is_empty() { vec![""] } else { source.lines().collect() };
            assert_eq!(joined, expect, "{source:?}");
        }
    }

    #[test]
    fn included_files_are_found() {
        assert_eq!(
            includes("#include \"a.cuh\"\n # include  \"b/c.cuh\" // d\n#include <e>\n// x"),
            ["a.cuh", "b/c.cuh"]
        );
        assert!(includes("#include \"open").is_empty());
    }
}
