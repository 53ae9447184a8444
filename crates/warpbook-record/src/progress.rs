use crate::format::json::read;
use crate::format::read::ReadError;
use crate::{DeviceInfo, Guessed, MAX_BYTES};
use serde::{Deserialize, Serialize};

/// Value of the field `kind` in a progress file.
const KIND: &str = "warpbook-progress";
/// The newest format of a progress file.
const FORMAT: u32 = 1;
/// Maximum number of tries of an exercise that a file keeps: the first one and the latest ones.
const MOST_TRIES: usize = 200;

/// Verdict on a try of an exercise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The stub was submitted unchanged, so nothing was tried.
    Unchanged,
    /// The answer is not right yet.
    NotYet,
    /// The answer is right.
    Right,
    /// The answer is right, and all its counts are on target.
    RightAndOnTarget,
}

impl Verdict {
    /// Returns the verdict in capital letters, such as "NOT YET".
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Unchanged => "UNCHANGED",
            Self::NotYet => "NOT YET",
            Self::Right => "RIGHT",
            Self::RightAndOnTarget => "RIGHT AND ON TARGET",
        }
    }

    /// Returns true if the answer is right, on target or not.
    #[must_use]
    pub fn is_right(self) -> bool {
        self >= Self::Right
    }
}

/// The fields that identify a file as progress; other fields are ignored.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Head {
    kind: Option<String>,
    format: u64,
}

/// One person's progress in the workshop's exercises. Each person has one file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Marks the file as a progress file.
    pub kind: String,
    /// Version of the file's format.
    pub format: u32,
    /// The person's name, as it was given.
    pub person: String,
    /// The device of the latest try; `None` before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<DeviceInfo>,
    /// Version of Warpbook at the latest try.
    #[serde(default)]
    pub warpbook: String,
    /// Version of NVRTC at the latest try, such as "13.0".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nvrtc: Option<String>,
    /// The exercises that were begun, by id.
    #[serde(default)]
    pub exercises: Vec<ExerciseProgress>,
    /// Guesses made in the lessons, each with the measured answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub guesses: Vec<Guessed>,
}

/// A person's progress in one exercise.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ExerciseProgress {
    /// The exercise's id, such as "E05".
    pub exercise: String,
    /// The first try and the latest ones, in order.
    pub tries: Vec<Try>,
    /// Number of all tries.
    pub count: u32,
    /// Seconds since 1970, in UTC, at which the exercise was opened or first tried.
    pub begun_at: u64,
    /// Number of the last hint that was shown; 0 if none was shown.
    pub hints: u32,
    /// True if the solution was shown.
    pub solution_shown: bool,
    /// Minutes from the beginning to the first right try.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minutes_to_right: Option<f64>,
    /// Latest answers to the questions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<String>,
}

/// One try of an exercise.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Try {
    /// Time of the try in seconds since 1970, in UTC.
    pub at: u64,
    /// Verdict on the answer.
    pub verdict: Verdict,
    /// Hash of the source without comments and white space, in hexadecimal digits.
    pub source: String,
    /// Id of the likely cause, such as "`no_block_index`", if the try is not right or not on target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// Counts that have a target.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counts: Vec<TargetCount>,
    /// Median time on a GPU in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_us: Option<f64>,
    /// Share of the device's measured ceiling that the time reaches, such as 0.91.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    /// Name of the GPU on which the time was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<String>,
}

/// A count with its target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TargetCount {
    /// The quantity that was counted, such as "sectors a request".
    pub name: String,
    /// The count; `None` if there was nothing to count.
    pub count: Option<f64>,
    /// Bound that the count has to keep to.
    pub bound: f64,
    /// True if the bound is an upper bound, false if it is a lower bound.
    pub is_most: bool,
    /// True if the count is on target.
    pub is_met: bool,
}

impl Progress {
    /// Creates the progress of a person who has not begun any exercise.
    #[must_use]
    pub fn new(person: impl Into<String>) -> Self {
        Self {
            kind: KIND.into(),
            format: FORMAT,
            person: person.into(),
            device: None,
            warpbook: String::new(),
            nvrtc: None,
            exercises: Vec::new(),
            guesses: Vec::new(),
        }
    }

    /// Reads a progress file. Unknown fields are ignored.
    ///
    /// # Errors
    /// If the bytes are not a progress file that this version can read. Any bytes may be passed.
    pub fn from_json(bytes: &[u8]) -> Result<Self, ReadError> {
        if bytes.len() > MAX_BYTES {
            return Err(ReadError::TooLarge { bytes: bytes.len() });
        }
        let text = std::str::from_utf8(bytes).map_err(|e| ReadError::NotUtf8 { at: e.valid_up_to() })?;
        if text.trim().is_empty() {
            return Err(ReadError::Empty);
        }
        let head: Head = read(text)?;
        if head.kind.as_deref() != Some(KIND) {
            return Err(ReadError::NotARecord(format!("it has no \"kind\": \"{KIND}\"")));
        }
        if head.format != u64::from(FORMAT) {
            return Err(ReadError::Schema { found: head.format });
        }
        Ok(read(text)?)
    }

    /// Returns the progress as the JSON text of a file.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }

    /// Returns the progress in an exercise, if it was begun.
    #[must_use]
    pub fn exercise(&self, id: &str) -> Option<&ExerciseProgress> {
        self.exercises.iter().find(|exercise| exercise.exercise == id)
    }

    /// Returns the progress in an exercise for changing it. A new exercise is begun at the time `now`, in seconds since
    /// 1970.
    pub fn begin(&mut self, id: &str, now: u64) -> &mut ExerciseProgress {
        let at = self.exercises.partition_point(|exercise| exercise.exercise.as_str() < id);
        if self.exercises.get(at).is_none_or(|exercise| exercise.exercise != id) {
            let new = ExerciseProgress { exercise: id.into(), begun_at: now, ..ExerciseProgress::default() };
            self.exercises.insert(at, new);
        }
        &mut self.exercises[at]
    }
}

impl ExerciseProgress {
    /// Adds a try, and drops old tries if there are too many.
    pub fn add(&mut self, tried: Try) {
        if tried.verdict.is_right() && self.minutes_to_right.is_none() {
            self.minutes_to_right = Some(tried.at.saturating_sub(self.begun_at) as f64 / 60.0);
        }
        self.count += 1;
        self.tries.push(tried);
        if self.tries.len() > MOST_TRIES {
            self.tries.remove(1);
        }
    }

    /// Returns the best verdict so far; `None` before the first try.
    #[must_use]
    pub fn best(&self) -> Option<Verdict> {
        // The exercise stays right even if the right try is no longer kept, since old tries are left out if there are
        // many.
        let right = self.minutes_to_right.map(|_| Verdict::Right);
        self.tries.iter().map(|tried| tried.verdict).chain(right).max()
    }

    /// Returns the number of tries with different sources that were judged.
    #[must_use]
    pub fn different_tries(&self) -> usize {
        let judged = self.tries.iter().filter(|tried| tried.verdict != Verdict::Unchanged);
        judged.map(|tried| &tried.source).collect::<std::collections::BTreeSet<_>>().len()
    }

    /// Returns the try that reached the largest share of its device's ceiling.
    #[must_use]
    pub fn fastest(&self) -> Option<&Try> {
        let timed = self.tries.iter().filter(|tried| tried.verdict.is_right() && tried.share.is_some());
        timed.max_by(|a, b| a.share.unwrap_or(0.0).total_cmp(&b.share.unwrap_or(0.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tried(at: u64, verdict: Verdict, source: &str) -> Try {
        let source = source.into();
        Try { at, verdict, source, cause: None, counts: Vec::new(), time_us: None, share: None, gpu: None }
    }

    #[test]
    fn a_file_is_read_as_it_was_written_and_others_are_refused() {
        let mut progress = Progress::new("Ada Lovelace");
        progress.begin("E05", 60).add(tried(180, Verdict::Right, "a"));
        progress.begin("E01", 61);
        let text = progress.to_json();
        assert_eq!(Progress::from_json(text.as_bytes()), Ok(progress.clone()));
        let ids: Vec<&str> = progress.exercises.iter().map(|e| e.exercise.as_str()).collect();
        assert_eq!(ids, ["E01", "E05"]);
        let refused = |text: &str| Progress::from_json(text.as_bytes()).unwrap_err().to_string();
        assert!(refused("").contains("empty"));
        assert!(refused("{").contains("not valid JSON"));
        assert!(refused("{\"schema\": 2}").contains("warpbook-progress"));
        assert!(refused(&text.replace("\"format\": 1", "\"format\": 9")).contains("format 9"));
        assert!(refused(&text.replace("\"person\"", "\"nobody\"")).contains("person"));
        for end in 0..text.len() {
            assert!(Progress::from_json(&text.as_bytes()[..end.saturating_sub(1)]).is_err(), "cut at {end}");
        }
    }

    #[test]
    fn minutes_count_to_the_first_right_try_and_the_best_verdict_stays() {
        let mut exercise = ExerciseProgress { begun_at: 60, ..ExerciseProgress::default() };
        assert_eq!((exercise.best(), exercise.different_tries()), (None, 0));
        exercise.add(tried(90, Verdict::Unchanged, "stub"));
        exercise.add(tried(120, Verdict::NotYet, "a"));
        exercise.add(tried(150, Verdict::NotYet, "a"));
        exercise.add(tried(180, Verdict::Right, "b"));
        exercise.add(tried(600, Verdict::NotYet, "c"));
        assert_eq!((exercise.minutes_to_right, exercise.best()), (Some(2.0), Some(Verdict::Right)));
        assert_eq!((exercise.count, exercise.different_tries()), (5, 3));
        for at in 0..300 {
            exercise.add(tried(700 + at, Verdict::NotYet, "d"));
        }
        assert_eq!((exercise.tries.len(), exercise.count), (MOST_TRIES, 305));
        assert_eq!((exercise.tries[0].at, exercise.best()), (90, Some(Verdict::Right)));
    }
}
