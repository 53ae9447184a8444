use crate::format::json::{Wrong, read};
use crate::{Run, SCHEMA};
use serde::Deserialize;
use serde_json::Value;
use std::fmt;

/// The largest record that can be read, in bytes.
pub const MAX_BYTES: usize = 64 << 20;

/// The reason why a file cannot be read as a record.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadError {
    /// The file is larger than [`MAX_BYTES`].
    TooLarge {
        /// The file's size in bytes.
        bytes: usize,
    },
    /// The file is empty.
    Empty,
    /// The file is an archive.
    Packed {
        /// The kind of archive, such as "a zip archive".
        kind: &'static str,
    },
    /// The file is not UTF-8 text.
    NotUtf8 {
        /// Offset of the first byte that is not UTF-8.
        at: usize,
    },
    /// The text is not JSON, is cut off, or is nested too deeply.
    NotJson(String),
    /// The text is JSON, but not a record.
    NotARecord(String),
    /// The record has a format that this version does not read.
    Schema {
        /// The version of the record's format.
        found: u64,
    },
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { bytes } => {
                write!(f, "The file has {} MiB; a record has at most {} MiB.", bytes.div_ceil(1 << 20), MAX_BYTES >> 20)
            }
            Self::Empty => f.write_str("The file is empty."),
            Self::Packed { kind } => write!(f, "The file is {kind}: unpack it, and open the record inside."),
            Self::NotUtf8 { at } => write!(f, "The file is not UTF-8 text (byte {at}); a record is a JSON text file."),
            Self::NotJson(why) => write!(f, "The file is not valid JSON: {why}."),
            Self::NotARecord(why) => write!(f, "The file is JSON, but no Warpbook record: {why}."),
            Self::Schema { found } if *found > u64::from(SCHEMA) => write!(
                f,
                "The record has format {found}; this version of Warpbook reads formats up to {SCHEMA}. Update Warpbook to open it."
            ),
            Self::Schema { found } => {
                write!(f, "The record has format {found}, which never existed; formats are counted from 1.")
            }
        }
    }
}

impl std::error::Error for ReadError {}

impl Run {
    /// Reads a record of this format or an older one. Unknown fields are ignored.
    ///
    /// # Errors
    /// If the file is not a readable record; the [`ReadError`] says in a sentence what is wrong. Any bytes may be passed.
    pub fn from_json(bytes: &[u8]) -> Result<Self, ReadError> {
        if bytes.len() > MAX_BYTES {
            return Err(ReadError::TooLarge { bytes: bytes.len() });
        }
        if let Some((_, kind)) = ARCHIVES.iter().find(|(first, _)| bytes.starts_with(first)) {
            return Err(ReadError::Packed { kind });
        }
        let text = std::str::from_utf8(bytes).map_err(|e| ReadError::NotUtf8 { at: e.valid_up_to() })?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        if text.trim().is_empty() {
            return Err(ReadError::Empty);
        }
        // The version is read first, since a later format may differ in everything else.
        let version: Version = read(text).map_err(|wrong| match wrong {
            Wrong::Type { .. } if !text.trim_start().starts_with('{') => ReadError::NotARecord(NO_OBJECT.into()),
            wrong => wrong.into(),
        })?;
        // Without this check, serde would read a list as the fields in order.
        if !text.trim_start().starts_with('{') {
            return Err(ReadError::NotARecord(NO_OBJECT.into()));
        }
        let Some(found) = version.schema.as_u64() else {
            return Err(ReadError::NotARecord("it has no number \"schema\"".into()));
        };
        let mut run: Self = match found {
            1 => {
                let mut old: Value = read(text)?;
                let (problems, descriptor) = crate::format::v1::upgrade(&mut old).map_err(ReadError::NotARecord)?;
                // Paths in an upgraded record differ from the paths in its file.
                let run: Self = read(&old.to_string()).map_err(|wrong| match wrong {
                    Wrong::Syntax(what) | Wrong::Type { what, .. } => ReadError::NotARecord(what),
                })?;
                Self { problems, descriptor, ..run }
            }
            found if found == u64::from(SCHEMA) => read(text)?,
            found => return Err(ReadError::Schema { found }),
        };
        run.resolve_problems().map_err(ReadError::NotARecord)?;
        crate::format::older::upgrade(&mut run);
        Ok(run)
    }
}

const NO_OBJECT: &str = "its outermost value is not an object";

/// First bytes of archives that may contain a record.
const ARCHIVES: [(&[u8], &str); 4] = [
    (b"PK\x03\x04", "a zip archive"),
    (b"\x1f\x8b", "packed by gzip"),
    (b"\xfd7zXZ", "packed by xz"),
    (b"\x28\xb5\x2f\xfd", "packed by zstd"),
];

/// The version of a record's format; other fields are ignored.
#[derive(Deserialize)]
struct Version {
    #[serde(default)]
    schema: Value,
}

impl From<Wrong> for ReadError {
    fn from(wrong: Wrong) -> Self {
        match wrong {
            Wrong::Syntax(what) => Self::NotJson(what),
            Wrong::Type { .. } => Self::NotARecord(wrong.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_an_upgraded_record_names_no_path() {
        let why = |schema: u32| {
            let text = format!("{{\n\"schema\": {schema},\n\"experiment\": 7\n}}");
            Run::from_json(text.as_bytes()).unwrap_err().to_string()
        };
        let (old, new) = (why(1), why(SCHEMA));
        assert!(old.contains("invalid type: integer `7`, expected a string."), "{old}");
        assert!(new.contains("invalid type: integer `7`, expected a string, at `experiment`."), "{new}");
    }
}
