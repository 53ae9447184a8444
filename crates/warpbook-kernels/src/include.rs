//! Finds the `#include` lines of a source, in every form that C++ allows.

/// An `#include` line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Include<'a> {
    /// An include of the form `"name"`, which is looked up next to the including file first.
    Quoted(&'a str),
    /// An include of the form `<name>`.
    Angled(&'a str),
    /// An include of any other form, such as a macro's name.
    Unknown,
}

impl<'a> Include<'a> {
    /// Returns the name of the included file, if it is written literally.
    #[must_use]
    pub fn name(self) -> Option<&'a str> {
        match self {
            Self::Quoted(name) | Self::Angled(name) => Some(name),
            Self::Unknown => None,
        }
    }
}

/// Lists the includes of a text in order, including those that a preprocessor condition disables.
#[must_use]
pub fn includes(text: &str) -> Vec<Include<'_>> {
    let mut found = Vec::new();
    // Includes are usually at the top, so nothing after the last of these words needs to be parsed.
    let Some(last) = ["include", "import"].iter().filter_map(|word| text.rfind(word)).max() else { return found };
    let mut rest = Rest { text, in_comment: false };
    while text.len() - rest.text.len() <= last {
        rest.blank();
        if rest.take("#") || rest.take("%:") {
            rest.blank();
            if rest.take("include_next") || rest.take("include") || rest.take("import") {
                rest.blank();
                found.push(rest.included());
            }
        }
        rest.end_line();
    }
    found
}

/// The part of a text that has not been parsed yet.
struct Rest<'a> {
    text: &'a str,
    in_comment: bool,
}

impl<'a> Rest<'a> {
    fn take(&mut self, word: &str) -> bool {
        let after = self.text.strip_prefix(word);
        self.text = after.unwrap_or(self.text);
        after.is_some()
    }

    /// Skips spaces, comments and line continuations.
    fn blank(&mut self) {
        loop {
            if self.in_comment {
                let Some((_, after)) = self.text.split_once("*/") else {
                    self.text = "";
                    return;
                };
                (self.text, self.in_comment) = (after, false);
            }
            let before = self.text.len();
            self.text = self.text.trim_start_matches(|c: char| c.is_whitespace() && c != '\n');
            self.in_comment = self.take("/*");
            if !self.in_comment && !self.take("\\\n") && !self.take("\\\r\n") && self.text.len() == before {
                return;
            }
        }
    }

    fn included(&self) -> Include<'a> {
        let line = self.text.lines().next().unwrap_or_default();
        let between = |open: char, close: char| Some(line.strip_prefix(open)?.split_once(close)?.0);
        let quoted = between('"', '"').map(Include::Quoted);
        quoted.or(between('<', '>').map(Include::Angled)).unwrap_or(Include::Unknown)
    }

    /// Moves to the next line, skipping comments and strings that span lines.
    fn end_line(&mut self) {
        let mut before = ' ';
        while let Some(c) = self.text.chars().next() {
            let quote = c == '"' || c == '\'' && !before.is_alphanumeric();
            match c {
                '\n' => {
                    self.text = &self.text[1..];
                    return;
                }
                _ if self.take("/*") => {
                    self.in_comment = true;
                    self.blank();
                }
                _ if self.take("//") => self.text = self.text.find('\n').map_or("", |end| &self.text[end..]),
                '\\' => self.text = self.text.strip_prefix("\\\n").unwrap_or(&self.text[1..]),
                _ if quote => self.skip_text(c),
                _ => self.text = &self.text[c.len_utf8()..],
            }
            before = c;
        }
    }

    /// Skips a quoted string, which ends at the end of its line at the latest.
    fn skip_text(&mut self, quote: char) {
        let mut escaped = true;
        let end = self.text.find(|c: char| {
            let ends = (c == quote && !escaped) || c == '\n';
            // The opening quote itself does not end the string.
            escaped = c == '\\' && !escaped;
            ends
        });
        let end = end.unwrap_or(self.text.len());
        self.text = &self.text[end..];
        self.take(if quote == '"' { "\"" } else { "'" });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Include::{Angled, Quoted, Unknown};

    #[test]
    fn every_form_is_read() {
        let check = |text: &str, expect: &[Include<'_>]| assert_eq!(includes(text), expect, "{text}");
        check("#include \"a/b.cuh\"\n#include <c.h>", &[Quoted("a/b.cuh"), Angled("c.h")]);
        check("  #  include \"a\" // why", &[Quoted("a")]);
        check("#include\"a\"\r\n#include<b>\r\n", &[Quoted("a"), Angled("b")]);
        check("/* x */ #/**/include /* y\n*/ \"a\"", &[Quoted("a")]);
        check("# \\\n include \\\r\n \"a\"\n%:include <b>", &[Quoted("a"), Angled("b")]);
        check("#include WHERE\n#include_next <x.h>\n#import \"y\"", &[Unknown, Angled("x.h"), Quoted("y")]);
        check("#if 0\n#include \"a\"\n#endif", &[Quoted("a")]);
    }

    #[test]
    fn what_is_no_include_is_passed_over() {
        let check = |text: &str| assert_eq!(includes(text), [], "{text}");
        check("");
        check("// #include \"a\"");
        check("/* \n#include \"a\"\n */ int x;");
        check("int a; /*\n#include \"a\"\n*/");
        check("const char* s = \"/*\";\nconst char* t = \"\\\"*/\";");
        check("int x = 1; #include \"a\"");
        check("#define including \"a\"\n#pragma once\n/*");
        let after = "int n = 1'000'000; char c = '\"'; // '\n#include \"a\"\nchar* s = \"//\"; /* \" */\n#include <b>";
        assert_eq!(includes(after), [Quoted("a"), Angled("b")]);
    }
}
