//! The keys of a TOML file. Values are read by type, unknown keys are refused, and every error names its line.

use std::ops::Range;
use std::path::Path;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A TOML file being read.
pub struct Source<'a> {
    pub path: &'a Path,
    pub text: &'a str,
}

impl Source<'_> {
    /// Returns an error with the file and the line of a byte offset.
    pub fn refuse<T>(&self, at: usize, why: impl AsRef<str>) -> Result<T, String> {
        let line = 1 + self.text.bytes().take(at).filter(|b| *b == b'\n').count();
        Err(format!("{}, line {line}: {}", self.path.display(), why.as_ref()))
    }

    /// Parses the whole file into tables and values.
    pub fn parse(&self) -> Result<Spanned<DeTable<'_>>, String> {
        DeTable::parse(self.text).or_else(|e| {
            let at = e.span().map_or(0, |s| s.start);
            self.refuse(at, format!("this is not TOML: {}.", e.message().trim_end_matches('.')))
        })
    }
}

/// A table of the file: `[optimizer]`, or the file's top level.
pub struct Keys<'a> {
    source: &'a Source<'a>,
    table: &'a DeTable<'a>,
    /// Prefix of the keys in messages: `optimizer.` or empty.
    prefix: String,
    /// Position where the table begins.
    at: usize,
}

impl<'a> Keys<'a> {
    /// Creates the keys of a table, or returns an error if a key is unknown.
    pub fn new(
        source: &'a Source<'a>,
        table: &'a DeTable<'a>,
        at: usize,
        prefix: &str,
        known: &[&str],
    ) -> Result<Self, String> {
        let unknown = table.keys().find(|k| !known.contains(&&**k.get_ref()));
        let keys = Self { source, table, prefix: prefix.into(), at };
        match unknown {
            None => Ok(keys),
            Some(key) => source.refuse(
                key.span().start,
                format!("there is no key `{prefix}{}`; {}", key.get_ref(), suggestion(key.get_ref(), known)),
            ),
        }
    }

    /// Returns a key's value and its position.
    fn find(&self, key: &str) -> Option<(&'a DeValue<'a>, Range<usize>)> {
        self.table.get(key).map(|v| (v.get_ref(), v.span()))
    }

    /// Returns the position of a key's value, or of the table if the key is missing.
    pub fn at(&self, key: &str) -> usize {
        self.find(key).map_or(self.at, |(_, span)| span.start)
    }

    /// Returns an error about a key's value.
    pub fn refuse<T>(&self, key: &str, why: impl AsRef<str>) -> Result<T, String> {
        self.source.refuse(self.at(key), format!("`{}{key}` {}", self.prefix, why.as_ref()))
    }

    fn wrong<T>(&self, key: &str, value: &DeValue<'_>, expected: &str) -> Result<T, String> {
        let found = match value {
            DeValue::String(s) => format!("the text \"{s}\""),
            DeValue::Integer(i) => i.to_string(),
            DeValue::Float(f) => f.to_string(),
            DeValue::Boolean(b) => b.to_string(),
            DeValue::Datetime(_) => "a date".into(),
            DeValue::Array(_) => "a list".into(),
            DeValue::Table(_) => "a table".into(),
        };
        self.refuse(key, format!("is {found}; it must be {expected}."))
    }

    /// Returns the key's value, or an error if it is missing.
    pub fn needed<T>(&self, key: &str, value: Option<T>, example: &str) -> Result<T, String> {
        match value {
            Some(value) => Ok(value),
            None => self.refuse(key, format!("is missing: write {example}")),
        }
    }

    /// Returns the key's integer, at least `least`.
    pub fn whole(&self, key: &str, least: u64) -> Result<Option<u64>, String> {
        let Some((value, _)) = self.find(key) else { return Ok(None) };
        match whole(value).filter(|n| *n >= least) {
            Some(n) => Ok(Some(n)),
            None => self.wrong(key, value, &format!("a whole number of at least {least}")),
        }
    }

    /// Returns the key's number, which must satisfy a condition that `words` describes.
    pub fn number(&self, key: &str, fits: impl Fn(f64) -> bool, words: &str) -> Result<Option<f64>, String> {
        let Some((value, _)) = self.find(key) else { return Ok(None) };
        match number(value).filter(|n| fits(*n)) {
            Some(n) => Ok(Some(n)),
            None => self.wrong(key, value, &format!("a number {words}")),
        }
    }

    /// Returns the key's boolean.
    pub fn flag(&self, key: &str) -> Result<Option<bool>, String> {
        match self.find(key) {
            None => Ok(None),
            Some((DeValue::Boolean(b), _)) => Ok(Some(*b)),
            Some((value, _)) => self.wrong(key, value, "true or false"),
        }
    }

    /// Returns the key's string.
    pub fn text(&self, key: &str) -> Result<Option<&'a str>, String> {
        match self.find(key) {
            None => Ok(None),
            Some((DeValue::String(s), _)) => Ok(Some(s)),
            Some((value, _)) => self.wrong(key, value, "a text in quotes"),
        }
    }

    /// Returns the value of a key, which must be one of `words`; `-` counts as `_`.
    pub fn choice(&self, key: &str, words: &[&'static str]) -> Result<Option<&'static str>, String> {
        let Some(text) = self.text(key)? else { return Ok(None) };
        match words.iter().find(|w| **w == text.replace('-', "_")) {
            Some(word) => Ok(Some(word)),
            None => self.refuse(key, format!("is \"{text}\"; {}", suggestion(text, words))),
        }
    }

    /// Returns the key's list of numbers.
    pub fn numbers(&self, key: &str) -> Result<Option<Vec<f64>>, String> {
        let Some((value, _)) = self.find(key) else { return Ok(None) };
        let all = if let DeValue::Array(list) = value {
            list.iter().map(|v| number(v.get_ref())).collect::<Option<Vec<_>>>()
        } else {
            None
        };
        match all {
            Some(all) => Ok(Some(all)),
            None if matches!(value, DeValue::Array(_)) => {
                self.refuse(key, "has something else than numbers in its list: write for example [0.5, 0.5, 0.5].")
            }
            None => self.wrong(key, value, "a list of numbers, such as [0.5, 0.5, 0.5]"),
        }
    }

    /// Returns the key's list of values, each with its position.
    pub fn list(&self, key: &str) -> Result<Option<&'a [Spanned<DeValue<'a>>]>, String> {
        match self.find(key) {
            None => Ok(None),
            Some((DeValue::Array(list), _)) => Ok(Some(list)),
            Some((value, _)) => self.wrong(key, value, "a list of layers, such as [\"conv2d 32 3x3\", \"relu\"]"),
        }
    }

    /// Returns the key's subtable, whose keys must be in `known`.
    pub fn table(&self, key: &str, known: &[&str]) -> Result<Option<Keys<'a>>, String> {
        match self.find(key) {
            None => Ok(None),
            Some((DeValue::Table(table), span)) => {
                Self::new(self.source, table, span.start, &format!("{}{key}.", self.prefix), known).map(Some)
            }
            Some((value, _)) => self.wrong(key, value, &format!("a table: write [{key}] and its keys below")),
        }
    }

    /// Returns the key's subtable, whose `kind` determines its other keys.
    pub fn kind(
        &self,
        key: &str,
        kinds: &[(&'static str, &[&str])],
    ) -> Result<Option<(&'static str, Keys<'a>)>, String> {
        let all: Vec<&str> = std::iter::once("kind").chain(kinds.iter().flat_map(|(_, keys)| *keys).copied()).collect();
        let Some(table) = self.table(key, &all)? else { return Ok(None) };
        let names: Vec<&str> = kinds.iter().map(|(name, _)| *name).collect();
        let kind = table.choice("kind", &names)?;
        let kind = table.needed("kind", kind, &format!("one of {}", names.join(", ")))?;
        let of_kind = kinds.iter().find(|(name, _)| *name == kind).map_or(&[][..], |(_, keys)| *keys);
        let known = [&["kind"], of_kind].concat();
        Self::new(self.source, table.table, table.at, &table.prefix, &known).map(|keys| Some((kind, keys)))
    }
}

fn whole(value: &DeValue<'_>) -> Option<u64> {
    let DeValue::Integer(i) = value else { return None };
    u64::from_str_radix(i.as_str(), i.radix()).ok().filter(|n| i64::try_from(*n).is_ok())
}

fn number(value: &DeValue<'_>) -> Option<f64> {
    match value {
        DeValue::Integer(i) => i64::from_str_radix(i.as_str(), i.radix()).ok().map(|n| n as f64),
        DeValue::Float(f) => f.as_str().parse().ok(),
        _ => None,
    }
}

/// Suggests the most similar word, or lists all if none is similar. Differences in capitals, `-` and `_` count least.
fn suggestion(word: &str, words: &[&str]) -> String {
    let plain = |word: &str| word.to_lowercase().replace(['-', '_'], "");
    let distance =
        |w: &&&str| (strsim::damerau_levenshtein(&plain(word), &plain(w)), strsim::damerau_levenshtein(word, w));
    match words.iter().min_by_key(distance).filter(|w| distance(w).0 <= 1 + word.chars().count() / 4) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("choose from {}.", words.join(", ")),
    }
}
