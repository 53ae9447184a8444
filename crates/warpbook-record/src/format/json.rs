//! Reads values of any type from JSON text. Errors say what is wrong and where.

use serde::de::{DeserializeOwned, IgnoredAny};
use std::fmt;

/// Maximum number of characters of a file that a message repeats.
const MOST_SAID: usize = 200;

/// The reason why a text cannot be read as a value of a type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wrong {
    /// The text is not JSON: the reason, with line and column.
    Syntax(String),
    /// The text is JSON, but has another type.
    Type {
        /// The error in the type, in words.
        what: String,
        /// Path of the value, such as `measurements[1].problem`; empty for the whole text.
        path: String,
    },
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax(what) => f.write_str(what),
            Self::Type { what, path } if path.is_empty() => f.write_str(what),
            Self::Type { what, path } => write!(f, "{what}, at `{path}`"),
        }
    }
}

impl std::error::Error for Wrong {}

/// Reads a value from JSON text.
///
/// # Errors
/// If the text is not JSON, or contains a value of another type.
pub fn read<T: DeserializeOwned>(text: &str) -> Result<T, Wrong> {
    serde_json::from_str(text).map_err(|error| wrong(text, &error))
}

fn wrong(text: &str, error: &serde_json::Error) -> Wrong {
    let (line, column) = (error.line(), error.column());
    let said = error.to_string();
    let what = said.strip_suffix(&format!(" at line {line} column {column}")).unwrap_or(&said);
    let before: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    let end = before + column;
    // serde_json reports some wrong types of lists and enumerations as wrong syntax.
    if error.is_data() || serde_json::from_str::<IgnoredAny>(text).is_ok() {
        // A wrong type is reported before a value's first byte or after its last, except for a list's type; wrong
        // syntax is reported after the first byte.
        let read = text.get(..end - usize::from(!error.is_data())).unwrap_or(text);
        let list = read.trim_end().strip_suffix('[').filter(|_| what.starts_with("invalid type: sequence"));
        let path = path(list.filter(|_| !text[read.len()..].starts_with('[')).unwrap_or(read));
        return Wrong::Type { what: shortened(what), path: shortened(&path) };
    }
    let place = format!("at line {line} column {column}");
    // Python and JavaScript write NaN and infinity as such words, but JSON does not allow them.
    let here = text.lines().nth(line.saturating_sub(1)).unwrap_or_default();
    let begins = |name: &&str| {
        (column.saturating_sub(2)..=column).any(|at| here.get(at..).is_some_and(|rest| rest.starts_with(*name)))
    };
    Wrong::Syntax(match ["NaN", "Infinity"].into_iter().find(begins) {
        Some(name) => format!("{name} is not a number of JSON, {place}: write it in quotes"),
        None if error.is_eof() || end >= text.len() => format!("{what}, {place}: it may have been cut off"),
        None => format!("{}, {place}", shortened(what)),
    })
}

/// Returns the path of the value in which, or before which, a prefix of a JSON text ends. The crate
/// `serde_path_to_error` would find the path too, but it wraps the reader of every type, which makes the page a
/// twentieth larger.
fn path(text: &str) -> String {
    /// A step of the path: an object's key (once it is read) or a list's index.
    enum PathStep<'a> {
        Key(Option<&'a str>),
        Item(usize),
    }
    let (mut parts, mut at) = (Vec::new(), 0);
    while let Some(byte) = text.as_bytes().get(at) {
        let begin = at;
        at += 1;
        match byte {
            b'{' => parts.push(PathStep::Key(None)),
            b'[' => parts.push(PathStep::Item(0)),
            b'}' | b']' => _ = parts.pop(),
            b',' => match parts.last_mut() {
                Some(PathStep::Key(key)) => *key = None,
                Some(PathStep::Item(i)) => *i += 1,
                None => {}
            },
            b'"' => {
                let mut escaped = false;
                let closes = |byte: &u8| {
                    let closes = *byte == b'"' && !escaped;
                    escaped = *byte == b'\\' && !escaped;
                    closes
                };
                at = text.as_bytes()[at..].iter().position(closes).map_or(text.len(), |quote| at + quote + 1);
                if let Some(PathStep::Key(key @ None)) = parts.last_mut() {
                    *key = text.get(begin..at);
                }
            }
            _ => {}
        }
    }
    let mut path = String::new();
    for part in parts {
        match part {
            PathStep::Item(i) => path += &format!("[{i}]"),
            PathStep::Key(Some(key)) => {
                let key: String = serde_json::from_str(key).unwrap_or_default();
                path += &format!("{}{key}", if path.is_empty() { "" } else { "." });
            }
            PathStep::Key(None) => {}
        }
    }
    path
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(MOST_SAID) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Problem, Run};
    use serde_json::Value;

    #[test]
    fn an_error_says_its_line_and_column() {
        let why = |text: &str| read::<Value>(text).unwrap_err().to_string();
        assert_eq!(why("{\n  \"é\": 1,\n  ]}"), "key must be a string, at line 3 column 3");
        assert_eq!(why("[1"), "EOF while parsing a list, at line 1 column 2: it may have been cut off");
        assert_eq!(why("1 1 1"), "trailing characters, at line 1 column 3");
        for (text, column) in [("[NaN]", 2), ("[1, -Infinity]", 6)] {
            let said = why(text);
            assert!(said.contains(&format!("is not a number of JSON, at line 1 column {column}: write it")), "{said}");
        }
    }

    /// Replaces every value of a record by every kind of value, and checks that the path is the same as from
    /// `serde_path_to_error`.
    #[test]
    fn paths_are_those_of_the_library() {
        fn pointers(value: &Value, here: &str, all: &mut Vec<String>) {
            all.push(here.to_owned());
            match value {
                Value::Array(list) => {
                    list.iter().enumerate().for_each(|(i, v)| pointers(v, &format!("{here}/{i}"), all))
                }
                Value::Object(fields) => {
                    fields.iter().for_each(|(k, v)| pointers(v, &format!("{here}/{}", k.replace('/', "~1")), all))
                }
                _ => {}
            }
        }
        let golden: Value = serde_json::from_str(include_str!("../../tests/golden/run.v2.json")).unwrap();
        let mut all = Vec::new();
        pointers(&golden, "", &mut all);
        let mut refused = 0;
        for pointer in all {
            for other in
                [Value::Null, 7.into(), (-1.5).into(), "x".into(), serde_json::json!([1]), serde_json::json!({})]
            {
                let mut record = golden.clone();
                *record.pointer_mut(&pointer).unwrap() = other;
                for text in [record.to_string(), serde_json::to_string_pretty(&record).unwrap()] {
                    let mut json = serde_json::Deserializer::from_str(&text);
                    let Err(expect) = serde_path_to_error::deserialize::<_, Run>(&mut json) else { continue };
                    let expect = expect.path().to_string();
                    let Wrong::Type { path, .. } = read::<Run>(&text).unwrap_err() else { panic!("{pointer} is JSON") };
                    assert_eq!(path, if expect == "." { "" } else { &*expect }, "{pointer}");
                    refused += 1;
                }
            }
        }
        assert!(refused > 1000, "{refused}");
    }

    #[test]
    fn an_error_says_its_path() {
        let why = |text: &str| read::<Run>(text).unwrap_err().to_string();
        let golden = include_str!("../../tests/golden/run.v2.json");
        assert!(read::<Run>(golden).is_ok());
        let at = |pointer: &str, value: Value| {
            let mut record: Value = serde_json::from_str(golden).unwrap();
            *record.pointer_mut(pointer).unwrap() = value;
            why(&record.to_string())
        };
        let said = at("/measurements/1/problem", 7.into());
        assert_eq!(said, "invalid type: integer `7`, expected a string, at `measurements[1].problem`");
        let said = at("/measurements/1/samples_us/2", "x".into());
        assert!(said.ends_with("at `measurements[1].samples_us[2]`"), "{said}");
        assert!(at("/experiment", 1e308.into()).len() < 2 * MOST_SAID);
        assert_eq!(why("{}"), "missing field `schema`");
        let said = at("/sources", serde_json::json!({ "é".repeat(500): 1 }));
        assert!(said.ends_with("é…`"), "{said}");
        assert!(read::<Vec<Problem>>(r#"[{"id": 1}]"#).unwrap_err().to_string().ends_with("at `[0].id`"));
    }
}
