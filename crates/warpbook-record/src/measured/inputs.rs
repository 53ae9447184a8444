//! Descriptions of the data that a run's problems were computed on.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The data of a run, with one entry for each kind of work that has its own data.
///
/// A record also stores the entries as a sentence, such as "x evenly spaced; several features: Gaussian x". Older
/// records have nothing else, and their sentence is split into entries when it is read.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(from = "Stored", into = "Stored")]
pub struct Inputs(Vec<Input>);

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

/// The two fields of a record's policy that store its inputs.
#[derive(Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Stored {
    /// All entries as a sentence. Pages that were exported before 28 November 2026 read no other form.
    inputs: Summary,
    /// The entries; missing in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    inputs_by_work: Option<Vec<Input>>,
}

/// The forms that a record's `policy.inputs` may have.
#[derive(Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged, expecting = "`inputs` must be a sentence or a list of inputs")]
enum Summary {
    Sentence(String),
    /// The entries, as in records of 28 and 29 November 2026.
    Entries(Vec<Input>),
}

impl From<Stored> for Inputs {
    fn from(stored: Stored) -> Self {
        match (stored.inputs_by_work, stored.inputs) {
            (Some(entries), _) | (None, Summary::Entries(entries)) => Self(entries),
            (None, Summary::Sentence(sentence)) => Self::of_sentence(&sentence),
        }
    }
}

impl From<Inputs> for Stored {
    fn from(inputs: Inputs) -> Self {
        Self { inputs: Summary::Sentence(inputs.to_string()), inputs_by_work: Some(inputs.0) }
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn a_sentence_of_an_older_record_becomes_entries() {
        let sentence = "x evenly spaced, y = 3 x; several features: Gaussian x; MNIST CNN: MNIST: the original files";
        let entries = Inputs::of_all("x evenly spaced, y = 3 x")
            .with("several features", "Gaussian x")
            .with("MNIST CNN", "MNIST: the original files");
        let read = |stored: Value| serde_json::from_value::<Inputs>(stored);
        assert_eq!(read(json!({ "inputs": sentence })).unwrap(), entries);
        assert_eq!(entries.to_string(), sentence);
        let new = serde_json::to_value(&entries).unwrap();
        assert_eq!(new["inputs"], sentence);
        let list = &new["inputs_by_work"];
        assert_eq!(list[0], json!({ "data": "x evenly spaced, y = 3 x" }));
        assert_eq!(list[1], json!({ "work": "several features", "data": "Gaussian x" }));
        assert_eq!(read(new.clone()).unwrap(), entries);
        assert_eq!(read(json!({ "inputs": list })).unwrap(), entries);
        assert!(read(json!({ "inputs": "" })).unwrap().is_empty());
        for wrong in [json!(3), json!({ "data": "x" }), json!([{ "work": "x" }]), Value::Null] {
            let why = read(json!({ "inputs": wrong })).unwrap_err().to_string();
            assert!(why.contains("`inputs` must be a sentence or a list of inputs"), "{why}");
        }
    }

    #[test]
    fn a_sentence_that_could_be_split_in_two_ways_does_not_change_its_entries() {
        let entries = Inputs::of_all("MNIST: the original files; shuffled");
        let stored = serde_json::to_string(&entries).unwrap();
        assert_eq!(serde_json::from_str::<Inputs>(&stored).unwrap(), entries);
    }
}
