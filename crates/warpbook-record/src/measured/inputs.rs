//! Descriptions of the data that a run's problems were computed on.

use serde::de::{SeqAccess, Visitor, value::SeqAccessDeserializer};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;

/// The data of a run, with one entry for each kind of work that has its own data.
///
/// Older records have a sentence instead, such as "x evenly spaced; several features: Gaussian x"; it is split into
/// entries when it is read.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Inputs(#[cfg_attr(feature = "schema", schemars(with = "Form"))] Vec<Input>);

/// The data of some problems of a run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Input {
    /// The problems that the entry is about, given by words in their labels, such as "MNIST CNN"; empty for all
    /// problems.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub work: String,
    /// The origin of the numbers, such as "standard Gaussian (Philox, seed 1)".
    pub data: String,
}

/// The forms in which a record may store its inputs.
#[cfg(feature = "schema")]
#[derive(schemars::JsonSchema)]
#[schemars(inline, untagged)]
#[expect(dead_code, reason = "it only describes the format")]
enum Form {
    Entries(Vec<Input>),
    /// A sentence, as in older records.
    Sentence(String),
}

impl Inputs {
    /// Creates inputs with one entry for all problems.
    #[must_use]
    pub fn of_all(data: impl Into<String>) -> Self {
        Self(vec![Input { work: String::new(), data: data.into() }])
    }

    /// Adds an entry for some problems.
    #[must_use]
    pub fn with(mut self, work: impl Into<String>, data: impl Into<String>) -> Self {
        self.0.push(Input { work: work.into(), data: data.into() });
        self
    }

    /// Splits a sentence into entries, which are separated by "; ". An entry for some work begins with the work and ":
    /// ".
    #[must_use]
    pub fn of_sentence(sentence: &str) -> Self {
        let entry = |clause: &str| match clause.split_once(": ") {
            Some((work, data)) => Input { work: work.trim().into(), data: data.trim().into() },
            None => Input { work: String::new(), data: clause.trim().into() },
        };
        Self(sentence.split("; ").map(entry).filter(|e| !e.data.is_empty()).collect())
    }

    /// Returns the entries in order.
    #[must_use]
    pub fn entries(&self) -> &[Input] {
        &self.0
    }

    /// Returns true if nothing is known about the data.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Makes one entry for all problems, like [`Inputs::of_all`].
impl From<&str> for Inputs {
    fn from(data: &str) -> Self {
        Self::of_all(data)
    }
}

/// Writes "several features: Gaussian x", or the data alone if the entry is about all problems.
impl fmt::Display for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { work, data } = self;
        let colon = if work.is_empty() { "" } else { ": " };
        write!(f, "{work}{colon}{data}")
    }
}

/// Writes the entries as one sentence without a full stop.
impl fmt::Display for Inputs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, entry) in self.0.iter().enumerate() {
            let separator = if i == 0 { "" } else { "; " };
            write!(f, "{separator}{entry}")?;
        }
        Ok(())
    }
}

/// This is written by hand, since an untagged enum would first make a copy of the value, and errors would lose their
/// path.
impl<'de> Deserialize<'de> for Inputs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Inputs;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of inputs or a sentence")
            }

            fn visit_str<E>(self, sentence: &str) -> Result<Inputs, E> {
                Ok(Inputs::of_sentence(sentence))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, entries: A) -> Result<Inputs, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(entries)).map(Inputs)
            }
        }
        deserializer.deserialize_any(Either)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_of_an_older_record_becomes_entries() {
        let sentence = "x evenly spaced, y = 3 x; several features: Gaussian x; MNIST CNN: MNIST: the original files";
        let entries = Inputs::of_all("x evenly spaced, y = 3 x")
            .with("several features", "Gaussian x")
            .with("MNIST CNN", "MNIST: the original files");
        let old: Inputs = serde_json::from_value(serde_json::json!(sentence)).unwrap();
        assert_eq!(old, entries);
        assert_eq!(old.to_string(), sentence);
        let new = serde_json::to_value(&entries).unwrap();
        assert_eq!(new[0], serde_json::json!({ "data": "x evenly spaced, y = 3 x" }));
        assert_eq!(new[1]["work"], "several features");
        assert_eq!(serde_json::from_value::<Inputs>(new).unwrap(), entries);
        assert!(serde_json::from_value::<Inputs>(serde_json::json!("")).unwrap().is_empty());
        for wrong in [serde_json::json!(3), serde_json::json!({ "data": "x" }), serde_json::json!([{ "work": "x" }])] {
            assert!(serde_json::from_value::<Inputs>(wrong).is_err());
        }
    }
}
