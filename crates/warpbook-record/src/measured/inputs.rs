//! Descriptions of the data that a run's problems were computed on, and the form of a policy in a record.

use super::measurement::{L2State, Policy, TimedBy};
use serde::de::{SeqAccess, Visitor, value::SeqAccessDeserializer};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;

/// The data of a run, with one entry for each kind of work that has its own data.
///
/// A record also stores the entries as a sentence, such as "x evenly spaced; several features: Gaussian x". Older
/// records have nothing else, and their sentence is split into entries when it is read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
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

/// A policy as a record stores it, with its inputs in two forms.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct StoredPolicy {
    /// Clock of the GPU rungs; CPU rungs are always timed with the host's clock.
    timed_by: TimedBy,
    /// State of L2 at the start of a sample.
    l2: L2State,
    /// Number of untimed repetitions before the first sample.
    warmup: u32,
    /// Number of samples wanted for each measurement.
    samples: u32,
    /// Total time of a measurement's samples in seconds after which the measurement stops early.
    #[serde(with = "crate::format::real::one")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::format::real::Real"))]
    budget_s: f64,
    /// Regions shorter than this many microseconds are repeated between two events, and the time is divided by the number of repetitions.
    #[serde(with = "crate::format::real::one")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::format::real::Real"))]
    batch_below_us: f64,
    /// Data that the problems were computed on, as a sentence, or as a list in records of 28 and 29 November 2026. Pages
    /// that were exported earlier read a sentence only.
    inputs: Summary,
    /// Entries of `inputs` as a list; missing in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    inputs_by_work: Option<Vec<Input>>,
}

/// The forms that a record's `policy.inputs` may have.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(inline))]
#[serde(untagged)]
enum Summary {
    Sentence(String),
    Entries(Vec<Input>),
}

/// This is written by hand, since an untagged enum would first make a copy of the value, and errors would lose their
/// path.
impl<'de> Deserialize<'de> for Summary {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Summary;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a sentence or a list of inputs")
            }

            fn visit_str<E>(self, sentence: &str) -> Result<Summary, E> {
                Ok(Summary::Sentence(sentence.into()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, entries: A) -> Result<Summary, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(entries)).map(Summary::Entries)
            }
        }
        deserializer.deserialize_any(Either)
    }
}

impl From<StoredPolicy> for Policy {
    fn from(stored: StoredPolicy) -> Self {
        let StoredPolicy { timed_by, l2, warmup, samples, budget_s, batch_below_us, inputs, inputs_by_work } = stored;
        let inputs = match (inputs_by_work, inputs) {
            (Some(entries), _) | (None, Summary::Entries(entries)) => Inputs(entries),
            (None, Summary::Sentence(sentence)) => Inputs::of_sentence(&sentence),
        };
        Self { timed_by, l2, warmup, samples, budget_s, batch_below_us, inputs }
    }
}

impl From<Policy> for StoredPolicy {
    fn from(policy: Policy) -> Self {
        let Policy { timed_by, l2, warmup, samples, budget_s, batch_below_us, inputs } = policy;
        let sentence = Summary::Sentence(inputs.to_string());
        Self {
            timed_by,
            l2,
            warmup,
            samples,
            budget_s,
            batch_below_us,
            inputs: sentence,
            inputs_by_work: Some(inputs.0),
        }
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

    /// Returns a policy's JSON with the given inputs.
    fn stored(inputs: &Value) -> Value {
        json!({ "timed_by": "wall_clock", "l2": "warm", "warmup": 1, "samples": 1, "budget_s": 1, "batch_below_us": 1, "inputs": inputs })
    }

    fn read(stored: Value) -> Result<Policy, serde_json::Error> {
        serde_json::from_value(stored)
    }

    #[test]
    fn a_sentence_of_an_older_record_becomes_entries() {
        let sentence = "x evenly spaced, y = 3 x; several features: Gaussian x; MNIST CNN: MNIST: the original files";
        let entries = Inputs::of_all("x evenly spaced, y = 3 x")
            .with("several features", "Gaussian x")
            .with("MNIST CNN", "MNIST: the original files");
        let policy = read(stored(&json!(sentence))).unwrap();
        assert_eq!(policy.inputs, entries);
        assert_eq!(entries.to_string(), sentence);
        let new = serde_json::to_value(&policy).unwrap();
        assert_eq!(new["inputs"], sentence);
        let list = &new["inputs_by_work"];
        assert_eq!(list[0], json!({ "data": "x evenly spaced, y = 3 x" }));
        assert_eq!(list[1], json!({ "work": "several features", "data": "Gaussian x" }));
        assert_eq!(read(stored(list)).unwrap(), policy);
        assert_eq!(read(new).unwrap(), policy);
        assert!(read(stored(&json!(""))).unwrap().inputs.is_empty());
        for wrong in [json!(3), json!({ "data": "x" }), Value::Null] {
            let why = read(stored(&wrong)).unwrap_err().to_string();
            assert!(why.contains("a sentence or a list of inputs"), "{why}");
        }
        assert!(read(stored(&json!([{ "work": "x" }]))).is_err());
    }

    #[test]
    fn a_sentence_that_could_be_split_in_two_ways_does_not_change_its_entries() {
        let policy = read(stored(&json!([{ "data": "MNIST: the original files; shuffled" }]))).unwrap();
        let written = serde_json::to_value(&policy).unwrap();
        assert_eq!(written["inputs"], "MNIST: the original files; shuffled");
        assert_eq!(read(written).unwrap().inputs, policy.inputs);
    }
}
