//! The data that the problems of a run were computed on.

use serde::de::{SeqAccess, Visitor, value::SeqAccessDeserializer};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;

/// The data of a run, an entry for each kind of work that has its own.
///
/// Records written before there were entries have a sentence, "x evenly spaced; several features: Gaussian x", which becomes entries when it is read.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Inputs(#[cfg_attr(feature = "schema", schemars(with = "Form"))] Vec<Input>);

/// The data of some problems of a run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Input {
    /// The problems that it is about, by words that their labels contain, such as "MNIST CNN"; empty for all.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub work: String,
    /// Where the numbers come from, such as "standard Gaussian (Philox, seed 1)".
    pub data: String,
}

/// The forms that a record may hold.
#[cfg(feature = "schema")]
#[derive(schemars::JsonSchema)]
#[schemars(inline, untagged)]
#[expect(dead_code, reason = "it only describes the format")]
enum Form {
    Entries(Vec<Input>),
    /// The form of older records.
    Sentence(String),
}

impl Inputs {
    /// The same data for all problems.
    #[must_use]
    pub fn of_all(data: impl Into<String>) -> Self {
        Self(vec![Input { work: String::new(), data: data.into() }])
    }

    /// Adds the data of some problems.
    #[must_use]
    pub fn with(mut self, work: impl Into<String>, data: impl Into<String>) -> Self {
        self.0.push(Input { work: work.into(), data: data.into() });
        self
    }

    /// The entries of a sentence, which are separated by "; " and begin with the work and ": " if they are not about all of it.
    #[must_use]
    pub fn of_sentence(sentence: &str) -> Self {
        let entry = |clause: &str| match clause.split_once(": ") {
            Some((work, data)) => Input { work: work.trim().into(), data: data.trim().into() },
            None => Input { work: String::new(), data: clause.trim().into() },
        };
        Self(sentence.split("; ").map(entry).filter(|e| !e.data.is_empty()).collect())
    }

    /// The entries in order.
    #[must_use]
    pub fn entries(&self) -> &[Input] {
        &self.0
    }

    /// True if nothing is known of the data.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The same data for all problems.
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

/// Written out, since an untagged enum would keep a copy of the value first and lose the path to an error.
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
