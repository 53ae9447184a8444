//! The lexer: splits PTX into tokens with their positions.

use crate::Refusal;

/// The kind of a token.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum TokenKind<'a> {
    /// A name, directive, opcode or special register, with its dots: `.reg`, `ld.global.f32`, `%tid.x`, `$L__BB0_2`.
    Word(&'a str),
    /// The bits of an integer without a sign.
    Integer(u64),
    /// The bits of a single-precision number, such as `0f3F800000`.
    Single(u32),
    /// The bits of a double-precision number, such as `0d3FF0000000000000` or `1.5`.
    Double(u64),
    /// The contents of a string between double quotes.
    Text(&'a str),
    /// A single character, such as `;` or `{`.
    Symbol(char),
    /// The end of the text.
    End,
}

/// A token with its line and column, counted from 1.
#[derive(Debug, Clone, Copy)]
pub(super) struct Token<'a> {
    pub(super) kind: TokenKind<'a>,
    pub(super) at: (u32, u32),
}

/// Splits a text into tokens. The last token is [`TokenKind::End`].
pub(super) fn tokens(text: &str) -> Result<Vec<Token<'_>>, Refusal> {
    let mut all = Vec::new();
    let mut cursor = Cursor { text, at: 0, line: 1, line_start: 0 };
    loop {
        cursor.skip_blanks()?;
        let at = cursor.position();
        let kind = cursor.token()?;
        all.push(Token { kind, at });
        if kind == TokenKind::End {
            return Ok(all);
        }
    }
}

struct Cursor<'a> {
    text: &'a str,
    at: usize,
    line: u32,
    line_start: usize,
}

impl<'a> Cursor<'a> {
    fn position(&self) -> (u32, u32) {
        (self.line, u32::try_from(self.at - self.line_start + 1).unwrap_or(u32::MAX))
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn refuse<T>(&self, message: impl Into<String>) -> Result<T, Refusal> {
        Err(Refusal::new(self.position(), message))
    }

    /// Advances by a number of bytes, and updates the line and the column.
    fn advance(&mut self, bytes: usize) {
        for (i, byte) in self.text.as_bytes()[self.at..self.at + bytes].iter().enumerate() {
            if *byte == b'\n' {
                self.line += 1;
                self.line_start = self.at + i + 1;
            }
        }
        self.at += bytes;
    }

    /// Skips white space and comments.
    fn skip_blanks(&mut self) -> Result<(), Refusal> {
        loop {
            let rest = self.rest();
            let blanks = rest.len() - rest.trim_ascii_start().len();
            let comment = if rest.starts_with("//") {
                rest.find('\n').unwrap_or(rest.len())
            } else if rest.starts_with("/*") {
                match rest.find("*/") {
                    Some(end) => end + 2,
                    None => return self.refuse("A comment has no end."),
                }
            } else {
                0
            };
            if blanks + comment == 0 {
                return Ok(());
            }
            self.advance(blanks + comment);
        }
    }

    fn token(&mut self) -> Result<TokenKind<'a>, Refusal> {
        let rest = self.rest();
        let Some(first) = rest.chars().next() else { return Ok(TokenKind::End) };
        if first.is_ascii_digit() {
            return self.number();
        }
        if first == '"' {
            let Some(length) = rest[1..].find('"') else { return self.refuse("A text has no end.") };
            self.advance(length + 2);
            return Ok(TokenKind::Text(&rest[1..=length]));
        }
        if first.is_ascii_alphabetic() || matches!(first, '_' | '$' | '%' | '.') {
            let length = word_length(rest);
            self.advance(length);
            return Ok(TokenKind::Word(&rest[..length]));
        }
        self.advance(first.len_utf8());
        Ok(TokenKind::Symbol(first))
    }

    fn number(&mut self) -> Result<TokenKind<'a>, Refusal> {
        let rest = self.rest();
        let length = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '.').unwrap_or(rest.len());
        let digits = &rest[..length];
        let number = match digits.get(..2) {
            Some("0f" | "0F") => u32::from_str_radix(&digits[2..], 16).ok().map(TokenKind::Single),
            Some("0d" | "0D") => u64::from_str_radix(&digits[2..], 16).ok().map(TokenKind::Double),
            Some("0x" | "0X") => {
                u64::from_str_radix(digits[2..].trim_end_matches('U'), 16).ok().map(TokenKind::Integer)
            }
            Some("0b" | "0B") => u64::from_str_radix(&digits[2..], 2).ok().map(TokenKind::Integer),
            _ if digits.contains('.') => digits.parse().ok().map(|v: f64| TokenKind::Double(v.to_bits())),
            _ => digits.trim_end_matches('U').parse().ok().map(TokenKind::Integer),
        };
        let Some(number) = number else { return self.refuse(format!("`{digits}` is not a number.")) };
        self.advance(length);
        Ok(number)
    }
}

/// Returns the length in bytes of the word at the start of a text. A single colon ends a word (`$L__BB0_2:`), but two colons are part of it (`shared::cta`).
fn word_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 1;
    while at < bytes.len() {
        if bytes[at..].starts_with(b"::") {
            at += 2;
        } else if bytes[at].is_ascii_alphanumeric() || matches!(bytes[at], b'_' | b'$' | b'.' | b'%') {
            at += 1;
        } else {
            break;
        }
    }
    at
}
