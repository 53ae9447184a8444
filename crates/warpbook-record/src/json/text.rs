//! The text of JSON (RFC 8259), read into values.

use super::Json;
use super::number::decimal;
use std::borrow::Cow;

/// As deep as values are nested at most.
const MAX_DEPTH: usize = 127;

/// A place in a text.
pub(super) struct Text<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl<'a> Text<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0, depth: 0 }
    }

    /// The only value of the text.
    pub(super) fn whole(mut self) -> Result<Json<'a>, String> {
        let value = self.value().and_then(|value| self.end().map(|()| value));
        value.map_err(|why| self.here(why))
    }

    /// The members of the text's only value, an object: each with its value's text.
    pub(super) fn members(mut self) -> Result<Vec<(Cow<'a, str>, &'a str)>, String> {
        let mut all = Vec::new();
        let read = self.object(|text, key| {
            text.peek();
            let from = text.at;
            text.value()?;
            all.push((key, &text.text[from..text.at]));
            Ok(())
        });
        read.and_then(|()| self.end()).map(|()| all).map_err(|why| self.here(why))
    }

    fn end(&mut self) -> Result<(), &'static str> {
        if self.peek().is_none() { Ok(()) } else { Err("there is more after its end") }
    }

    /// An error, and where it is.
    fn here(&self, why: &str) -> String {
        let before = &self.text.as_bytes()[..self.at.min(self.text.len())];
        let line = before.iter().filter(|b| **b == b'\n').count() + 1;
        let column = before.iter().rev().take_while(|b| **b != b'\n').count() + 1;
        format!("{why}, at line {line} column {column}")
    }

    /// The next byte that is not blank.
    fn peek(&mut self) -> Option<u8> {
        let rest = &self.text.as_bytes()[self.at..];
        self.at += rest.iter().take_while(|b| matches!(b, b' ' | b'\n' | b'\t' | b'\r')).count();
        self.text.as_bytes().get(self.at).copied()
    }

    /// Goes past a byte, if it is the next that is not blank.
    fn take(&mut self, byte: u8) -> bool {
        let is = self.peek() == Some(byte);
        self.at += usize::from(is);
        is
    }

    /// `why` where there is something else, or that the text ends.
    fn not(&mut self, why: &'static str) -> &'static str {
        if self.peek().is_none() { "the text ends early" } else { why }
    }

    fn value(&mut self) -> Result<Json<'a>, &'static str> {
        match self.peek() {
            Some(b'{') => {
                let mut fields = Vec::new();
                self.object(|text, key| {
                    fields.push((key, text.value()?));
                    Ok(())
                })?;
                Ok(Json::Object(fields))
            }
            Some(b'[') => {
                let mut list = Vec::new();
                self.several((b']', "a comma or `]` is missing"), |text| {
                    list.push(text.value()?);
                    Ok(())
                })?;
                Ok(Json::List(list))
            }
            Some(b'"') => Ok(Json::Text(self.string()?)),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => {
                let words = [("null", Json::Null), ("true", Json::Bool(true)), ("false", Json::Bool(false))];
                let rest = &self.text[self.at..];
                let word = words.into_iter().find(|(word, _)| rest.starts_with(word));
                let (word, value) = word.ok_or_else(|| self.not("a value is missing"))?;
                self.at += word.len();
                Ok(value)
            }
        }
    }

    /// The members of an object; `member` reads a value, given its key.
    fn object(
        &mut self,
        mut member: impl FnMut(&mut Self, Cow<'a, str>) -> Result<(), &'static str>,
    ) -> Result<(), &'static str> {
        if self.peek() != Some(b'{') {
            return Err(self.not("an object is missing"));
        }
        self.several((b'}', "a comma or `}` is missing"), |text| {
            if text.peek() != Some(b'"') {
                return Err(text.not("a key in quotes is missing"));
            }
            let key = text.string()?;
            if !text.take(b':') {
                return Err(text.not("a colon is missing"));
            }
            member(text, key)
        })
    }

    /// What is between an opening bracket, which is next, and the closing one, separated by commas.
    fn several(
        &mut self,
        (close, why): (u8, &'static str),
        mut one: impl FnMut(&mut Self) -> Result<(), &'static str>,
    ) -> Result<(), &'static str> {
        if self.depth == MAX_DEPTH {
            return Err("recursion limit exceeded");
        }
        self.depth += 1;
        self.at += 1;
        if !self.take(close) {
            loop {
                one(self)?;
                if self.take(close) {
                    break;
                }
                if !self.take(b',') {
                    return Err(self.not(why));
                }
            }
        }
        self.depth -= 1;
        Ok(())
    }

    /// A string, whose quote is next; borrowed where it has no escapes.
    fn string(&mut self) -> Result<Cow<'a, str>, &'static str> {
        self.at += 1;
        let mut all = Cow::Borrowed("");
        loop {
            let rest = &self.text[self.at..];
            let plain = rest.bytes().take_while(|b| !matches!(b, b'"' | b'\\' | ..0x20)).count();
            match &mut all {
                Cow::Borrowed("") => all = rest[..plain].into(),
                all => all.to_mut().push_str(&rest[..plain]),
            }
            self.at += plain;
            match rest.as_bytes().get(plain) {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(all);
                }
                Some(b'\\') => {
                    self.at += 1;
                    all.to_mut().push(self.escaped()?);
                }
                Some(_) => return Err("a control character in a text is not escaped"),
                None => return Err("the text ends early"),
            }
        }
    }

    /// The character of an escape, after its backslash.
    fn escaped(&mut self) -> Result<char, &'static str> {
        let of = self.text.as_bytes().get(self.at).ok_or("the text ends early")?;
        self.at += 1;
        Ok(match of {
            b'"' | b'\\' | b'/' => char::from(*of),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let mut code = self.hexadecimal()?;
                // The first of a pair, as UTF-16 has them.
                if (0xD800..0xDC00).contains(&code) && self.text[self.at..].starts_with("\\u") {
                    self.at += 2;
                    let second = self.hexadecimal()?;
                    if !(0xDC00..0xE000).contains(&second) {
                        return Err("half of a character is escaped");
                    }
                    code = 0x1_0000 + ((code - 0xD800) << 10 | (second - 0xDC00));
                }
                char::from_u32(code).ok_or("half of a character is escaped")?
            }
            _ => return Err("an escape is none of JSON's"),
        })
    }

    /// Four digits.
    fn hexadecimal(&mut self) -> Result<u32, &'static str> {
        let digits = self.text.as_bytes()[self.at..].iter().take(4);
        let code = digits.clone().try_fold(0, |code, d| Some(code << 4 | char::from(*d).to_digit(16)?));
        let code = code.filter(|_| digits.len() == 4).ok_or("an escape is none of JSON's")?;
        self.at += 4;
        Ok(code)
    }

    fn number(&mut self) -> Result<Json<'a>, &'static str> {
        let rest = &self.text[self.at..];
        let is_of_number = |b: &u8| matches!(b, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
        let text = &rest[..rest.bytes().take_while(is_of_number).count()];
        let digits = text.strip_prefix('-').unwrap_or(text);
        let is_negative = digits.len() < text.len();
        let whole = digits.bytes().take_while(u8::is_ascii_digit).count();
        let more = digits[whole..].strip_prefix('.');
        let bad = "a number is none of JSON's";
        // What other languages permit.
        if whole == 0
            || whole > 1 && digits.starts_with('0')
            || more.is_some_and(|more| !more.starts_with(|c: char| c.is_ascii_digit()))
        {
            return Err(bad);
        }
        self.at += text.len();
        if whole == digits.len() {
            match (text.parse(), text.parse()) {
                (Ok(n), _) => return Ok(Json::Count(n)),
                (_, Ok(n @ ..0)) => return Ok(Json::Negative(n)),
                // Too large for them, or -0.
                _ => {}
            }
        }
        match decimal(digits).ok_or(bad)? {
            f64::INFINITY => Err("a number is out of range"),
            v => Ok(Json::Real(if is_negative { -v } else { v })),
        }
    }
}
