//! A tokenizer for CUDA C++, for colours in notebooks and on the page.
//!
//! [`tokens`] loses nothing: the joined tokens are the source, byte for byte. Any text is accepted, not only CUDA C++.

/// The kind of a piece of source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Names, operators and white space.
    Plain,
    /// A comment.
    Comment,
    /// A string, a character, or the file in angle brackets that a directive includes.
    Text,
    /// `#` at the start of a line with the word after it; a `#pragma` as a whole.
    Directive,
    /// A number.
    Number,
    /// A keyword of C++.
    Keyword,
    /// A keyword that CUDA adds to the language: `__global__`, `__shared__`.
    Qualifier,
    /// The name of a type, such as `float`.
    Type,
    /// A variable or an intrinsic of CUDA: `threadIdx`, `__syncthreads`.
    Builtin,
    /// A name that the compiler defines: `__CUDA_ARCH__`.
    Predefined,
    /// A function that comes with CUDA: `fmaf`, `atomicAdd`.
    Library,
    /// Any other name before a parenthesis.
    Function,
}

/// A piece of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token<'a> {
    /// Kind of the token.
    pub kind: Kind,
    /// Text of the token, without line breaks.
    pub text: &'a str,
}

/// CUDA's keywords.
const QUALIFIERS: &[&str] = &[
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
];

/// C++'s keywords.
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

/// Types, except the ones that [`is_vector_or_sized`] accepts.
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
    "cudaStream_t",
    "nv_bfloat16",
    "nv_bfloat162",
    "clock_t",
];

/// Built-in variables of a thread.
const VARIABLES: &[&str] = &["threadIdx", "blockIdx", "blockDim", "gridDim", "warpSize"];

/// CUDA's functions, except the ones that begin with `atomic`.
const LIBRARY: &[&str] = &[
    "fma", "fmaf", "min", "max", "fminf", "fmaxf", "rsqrtf", "sqrtf", "expf", "logf", "sinf", "cosf", "sincosf",
    "clock", "clock64", "printf", "assert",
];

/// Returns the tokens of a source, including line breaks; joined, they are the source, byte for byte.
#[must_use]
pub fn tokens(source: &str) -> Vec<(Kind, &str)> {
    joined(source, scan(source).into_iter().map(|piece| (piece.kind, piece.text)), Kind::Plain)
}

/// Returns the tokens of a source line by line, without line breaks. A directive is one token, up to its line's end or
/// a comment.
#[must_use]
pub fn lines(source: &str) -> Vec<Vec<Token<'_>>> {
    let mut out = vec![Vec::new()];
    let mut rest = source;
    for (kind, text) in whole_directives(source) {
        for (i, part) in text.split('\n').enumerate() {
            if i > 0 {
                out.push(Vec::new());
                rest = &rest[1..];
            }
            rest = &rest[part.len()..];
            let part = part.strip_suffix('\r').filter(|_| rest.starts_with('\n')).unwrap_or(part);
            if !part.is_empty() {
                out.last_mut().expect("begins with one line").push(Token { kind, text: part });
            }
        }
    }
    // A final line break does not start another line.
    if out.len() > 1 && out.last().is_some_and(Vec::is_empty) {
        out.pop();
    }
    out
}

/// Returns tokens like [`tokens`], but a whole directive has one kind, except for comments in it.
fn whole_directives(source: &str) -> Vec<(Kind, &str)> {
    let whole = scan(source).into_iter().map(|p| (if p.directive { Kind::Directive } else { p.kind }, p.text));
    joined(source, joined(source, whole, Kind::Directive).into_iter(), Kind::Plain)
}

/// Joins neighbours of the same kind. The pieces are the whole source in order.
fn joined<'a>(source: &'a str, pieces: impl Iterator<Item = (Kind, &'a str)>, of: Kind) -> Vec<(Kind, &'a str)> {
    let mut out: Vec<(Kind, &str)> = Vec::new();
    let mut at = 0;
    for (kind, text) in pieces {
        let end = at + text.len();
        match out.last_mut() {
            Some((last_kind, last)) if kind == of && *last_kind == of => *last = &source[at - last.len()..end],
            _ => out.push((kind, text)),
        }
        at = end;
    }
    out
}

#[derive(Clone, Copy)]
struct Piece<'a> {
    kind: Kind,
    text: &'a str,
    /// True if the piece belongs to a directive; false for comments.
    directive: bool,
}

fn scan(source: &str) -> Vec<Piece<'_>> {
    let mut all: Vec<Piece<'_>> = Vec::new();
    let mut rest = source;
    let mut line_start = true;
    // True inside a directive, until the line ends.
    let mut directive = false;
    while let Some(first) = rest.chars().next() {
        let (kind, length) = token(rest, line_start, directive && rest.starts_with('<') && ends_with_include(&all));
        let (text, after) = rest.split_at(length);
        let continued = || all.iter().rev().find(|p| p.text != "\r").is_some_and(|p| p.text.ends_with('\\'));
        directive = match kind {
            Kind::Directive => true,
            Kind::Comment => false,
            _ => directive && (first != '\n' || continued()),
        };
        // A directive may follow only white space and comments on its line.
        line_start = first == '\n' || (line_start && (first.is_whitespace() || kind == Kind::Comment));
        all.push(Piece { kind, text, directive });
        rest = after;
    }
    all
}

/// Returns the kind and the length of the token that a text begins with.
fn token(rest: &str, line_start: bool, after_include: bool) -> (Kind, usize) {
    let first = rest.chars().next().unwrap_or(' ');
    if rest.starts_with("//") {
        (Kind::Comment, to_line_end(rest))
    } else if let Some(inside) = rest.strip_prefix("/*") {
        (Kind::Comment, inside.find("*/").map_or(rest.len(), |at| at + 4))
    } else if first == '#' && line_start {
        (Kind::Directive, directive_head(rest))
    } else if let Some(length) = raw_string(rest) {
        (Kind::Text, length)
    } else if first == '"' || first == '\'' {
        (Kind::Text, quoted(rest, first))
    } else if first == '<' && after_include {
        (Kind::Text, rest.find(['>', '\n']).map_or(rest.len(), |at| at + usize::from(rest[at..].starts_with('>'))))
    } else if first.is_ascii_digit() || (first == '.' && rest[1..].starts_with(|c: char| c.is_ascii_digit())) {
        (Kind::Number, number(rest))
    } else if is_of_word(first) {
        let length = run(rest, is_of_word);
        (word(&rest[..length], &rest[length..]), length)
    } else {
        (Kind::Plain, first.len_utf8())
    }
}

/// Returns true for a character of a name. Kernels have no names beyond ASCII, so all other letters are accepted.
fn is_of_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || !(c.is_ascii() || c.is_whitespace())
}

fn word(name: &str, after: &str) -> Kind {
    let atomic = || name.strip_prefix("atomic").is_some_and(|r| r.starts_with(|c: char| c.is_ascii_uppercase()));
    if QUALIFIERS.contains(&name) {
        Kind::Qualifier
    } else if KEYWORDS.contains(&name) {
        Kind::Keyword
    } else if TYPES.contains(&name) || is_vector_or_sized(name) {
        Kind::Type
    } else if VARIABLES.contains(&name) {
        Kind::Builtin
    } else if name.starts_with("__") {
        // CUDA's own functions begin with two underscores: __shfl_xor_sync, __syncthreads.
        if name.ends_with("__") { Kind::Predefined } else { Kind::Builtin }
    } else if LIBRARY.contains(&name) || atomic() {
        Kind::Library
    } else if after.starts_with('(') {
        Kind::Function
    } else {
        Kind::Plain
    }
}

/// Returns true for `float4`, `uint2`, `int8_t` and the like.
fn is_vector_or_sized(word: &str) -> bool {
    if let Some(stem) = word.strip_suffix("_t") {
        let Some(size) = stem.strip_prefix('u').unwrap_or(stem).strip_prefix("int") else { return false };
        let size = size.strip_prefix("_least").or(size.strip_prefix("_fast")).unwrap_or(size);
        return matches!(size, "8" | "16" | "32" | "64" | "ptr" | "max");
    }
    let stem = word.trim_end_matches(['1', '2', '3', '4']);
    let signed = stem.strip_prefix('u').unwrap_or(stem);
    word.len() == stem.len() + 1
        && (matches!(signed, "char" | "short" | "int" | "long" | "longlong") || matches!(stem, "float" | "double"))
}

fn run(text: &str, wanted: impl Fn(char) -> bool) -> usize {
    text.find(|c| !wanted(c)).unwrap_or(text.len())
}

/// Returns the length up to the first line end without a backslash before it.
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

/// Returns the length of `#` and the word after it. A pragma's words are not C++, so it is taken as a whole.
fn directive_head(text: &str) -> usize {
    let blanks = run(&text[1..], |c| c == ' ' || c == '\t');
    let word = run(&text[1 + blanks..], |c| c.is_ascii_alphanumeric());
    let head = 1 + blanks + word;
    if &text[1 + blanks..head] != "pragma" {
        return head;
    }
    let line = &text[..to_line_end(text)];
    let comment = line.find("//").into_iter().chain(line.find("/*")).min();
    comment.unwrap_or(line.len())
}

/// Returns the length of a string or character up to its closing quote, or to the end of the line if the quote is
/// missing.
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

/// Returns the length of a raw string, if one starts here: `R"mark( ... )mark"`.
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
        let part = c.is_ascii_alphanumeric() || matches!(c, '.' | '\'' | '_') || (exponent && (c == '+' || c == '-'));
        last = c;
        !part
    });
    end.map_or(text.len(), |(at, _)| at)
}

fn ends_with_include(pieces: &[Piece<'_>]) -> bool {
    let mut back = pieces.iter().rev().skip_while(|p| p.text.trim().is_empty());
    back.next().is_some_and(|p| p.kind == Kind::Directive && p.text.ends_with("include"))
}

/// Returns the source with each comment replaced by blanks of the same length; line breaks stay.
#[must_use]
pub fn without_comments(source: &str) -> String {
    let blank =
        |text: &str| text.chars().map(|c| if c == '\n' { "\n".into() } else { " ".repeat(c.len_utf8()) }).collect();
    tokens(source).into_iter().map(|(k, t)| if k == Kind::Comment { blank(t) } else { t.to_owned() }).collect()
}

#[cfg(test)]
mod tests {
    use super::Kind::*;
    use super::*;
    use proptest::prelude::*;

    fn all_of_it_stays(source: &str) {
        let text: String = tokens(source).iter().map(|(_, t)| *t).collect();
        assert_eq!(text, source);
        let text: String = whole_directives(source).iter().map(|(_, t)| *t).collect();
        assert_eq!(text, source);
        let joined: Vec<String> = lines(source).iter().map(|l| l.iter().map(|t| t.text).collect()).collect();
        let expect: Vec<&str> = if source.is_empty() { vec![""] } else { source.lines().collect() };
        assert_eq!(joined, expect, "{source:?}");
    }

    proptest! {
        #[test]
        fn the_text_stays_as_it_is(source in "[ -~\r\n\t\u{e4}\u{4e16}]{0,120}") {
            all_of_it_stays(&source);
        }

        #[test]
        fn the_text_of_things_like_code_stays_as_it_is(
            parts in proptest::collection::vec(
                prop_oneof!["\"", "'", "/\\*", "\\*/", "//", "\\\\", "\n", "\r\n", "#include <", "#pragma", "#define", "R\"",
                    "R\"a\\(", "\\)a\"", "0x1p-3", "1e+", "__syncthreads", "float4", "é", "<", "&amp;", " "], 0..20)
        ) {
            all_of_it_stays(&parts.concat());
        }
    }

    #[test]
    fn no_character_is_lost() {
        for source in
            ["", "\n", "a\r\nb", "\u{1f600}\"\u{e9}'", "/*\n\n*/x", "R\"(", "#", "'", "\\", "<script>alert(1)</script>"]
        {
            all_of_it_stays(source);
        }
        for (kernel, _) in warpbook_kernels::all() {
            all_of_it_stays(&kernel.source);
        }
    }

    fn coloured(all: Vec<(Kind, &str)>) -> Vec<(Kind, &str)> {
        all.into_iter().filter(|(k, _)| *k != Plain).collect()
    }

    #[test]
    fn tokens_have_their_kinds() {
        let check = |source: &str, expect: &[(Kind, &str)]| assert_eq!(coloured(tokens(source)), expect, "{source}");
        check(
            "__global__ void k(float4* x)",
            &[(Qualifier, "__global__"), (Type, "void"), (Function, "k"), (Type, "float4")],
        );
        check("v += __shfl_xor_sync(m, v, 1);", &[(Builtin, "__shfl_xor_sync"), (Number, "1")]);
        check(
            "threadIdx.x + 0xffffffffu - 1.5e-3f",
            &[(Builtin, "threadIdx"), (Number, "0xffffffffu"), (Number, "1.5e-3f")],
        );
        check("\"// no \\\" comment\" // one", &[(Text, "\"// no \\\" comment\""), (Comment, "// one")]);
        check("/* a\n\" */ 'x'", &[(Comment, "/* a\n\" */"), (Text, "'x'")]);
        check("#include <a.h> // c", &[(Directive, "#include"), (Text, "<a.h>"), (Comment, "// c")]);
        check("#pragma unroll 4\nint", &[(Directive, "#pragma unroll 4"), (Type, "int")]);
        check("R\"(\" // )\" int", &[(Text, "R\"(\" // )\""), (Type, "int")]);
        check("a < b; atomicAdd(p); uint32_t int5", &[(Library, "atomicAdd"), (Type, "uint32_t")]);
        check("1'000", &[(Number, "1'000")]);
        check("__CUDA_ARCH__ >= 900", &[(Predefined, "__CUDA_ARCH__"), (Number, "900")]);
    }

    #[test]
    fn words_numbers_and_comments_are_told_apart() {
        let check =
            |source: &str, expect: &[(Kind, &str)]| assert_eq!(coloured(whole_directives(source)), expect, "{source}");
        check("const float4 v; // a \"b\"\n", &[(Keyword, "const"), (Type, "float4"), (Comment, "// a \"b\"")]);
        check("__global__ void f(int n)", &[(Qualifier, "__global__"), (Type, "void"), (Function, "f"), (Type, "int")]);
        check("x = 1.5e-3f + 0xFFu - .5", &[(Number, "1.5e-3f"), (Number, "0xFFu"), (Number, ".5")]);
        check("a = 0xE-b", &[(Number, "0xE")]);
        check("\"a\\\"b\" 'c'", &[(Text, "\"a\\\"b\""), (Text, "'c'")]);
        check("\"open\nint", &[(Text, "\"open"), (Type, "int")]);
        check("R\"x(a\")x\" int", &[(Text, "R\"x(a\")x\""), (Type, "int")]);
        check("a /* b\nc */ int", &[(Comment, "/* b\nc */"), (Type, "int")]);
        check("/* open", &[(Comment, "/* open")]);
        check(
            "  #define A 1 \\\n  2 // c\nint",
            &[(Directive, "#define A 1 \\\n  2 "), (Comment, "// c"), (Type, "int")],
        );
        check("#define A \\\r\n  2\r\nint", &[(Directive, "#define A \\\r\n  2\r"), (Type, "int")]);
        check("a # b", &[]);
        check("threadIdx.x + uint64_t", &[(Builtin, "threadIdx"), (Type, "uint64_t")]);
    }
}
