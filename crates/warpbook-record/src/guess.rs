//! Guesses of a reader, with the measured answers.

use serde::{Deserialize, Serialize};

/// A reader's guess, made before the answer was shown, with the measured answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Guessed {
    /// The lesson, such as "10_fused_regression"; empty if it is not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub lesson: String,
    /// The question, as a statement with a gap: "Fused is so many times as fast as Unfused".
    pub what: String,
    /// The reader's guess.
    pub guess: Answer,
    /// The measured answer; `None` if it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<Answer>,
}

/// A guess or a measured answer: a number or a word.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Answer {
    /// A number; its unit is in the question.
    Number(f64),
    /// A word from a short list of choices.
    Word(String),
}

impl Guessed {
    /// Returns the factor between guess and measurement, at least 1. Returns `None` for words, if nothing was measured, or if only one of the two numbers is
    /// above 0.
    #[must_use]
    pub fn factor(&self) -> Option<f64> {
        let (Answer::Number(guess), Some(Answer::Number(measured))) = (&self.guess, &self.measured) else {
            return None;
        };
        match guess / measured {
            _ if guess == measured => Some(1.0),
            ratio if ratio.is_finite() && ratio > 0.0 => Some(ratio.max(1.0 / ratio)),
            _ => None,
        }
    }

    /// Returns true if the guess is within this factor of the measurement; words have to be equal. Returns `None` if nothing was measured.
    #[must_use]
    pub fn is_within(&self, factor: f64) -> Option<bool> {
        Some(match (&self.guess, self.measured.as_ref()?) {
            (Answer::Word(guess), Answer::Word(measured)) => guess == measured,
            _ => self.factor().is_some_and(|found| found <= factor),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guessed(guess: Answer, measured: Option<Answer>) -> Guessed {
        Guessed { lesson: String::new(), what: "x".into(), guess, measured }
    }

    #[test]
    fn a_guess_is_near_by_its_factor_in_both_directions() {
        let number = |guess, measured| guessed(Answer::Number(guess), Some(Answer::Number(measured)));
        assert_eq!(number(2.0, 4.0).factor(), Some(2.0));
        assert_eq!(number(8.0, 4.0).factor(), Some(2.0));
        assert_eq!(number(0.0, 0.0).factor(), Some(1.0));
        assert_eq!(number(0.0, 4.0).factor(), None);
        assert_eq!(number(8.0, 4.0).is_within(2.0), Some(true));
        assert_eq!(number(8.1, 4.0).is_within(2.0), Some(false));
        assert_eq!(number(-1.0, 4.0).is_within(2.0), Some(false));
        assert_eq!(guessed(Answer::Number(1.0), None).is_within(2.0), None);
    }

    #[test]
    fn words_are_equal_or_not_and_survive_json() {
        let word = |guess: &str| guessed(Answer::Word(guess.into()), Some(Answer::Word("it waits".into())));
        assert_eq!((word("it waits").is_within(1.0), word("it ends").is_within(9.0)), (Some(true), Some(false)));
        let text = serde_json::to_string(&[word("it waits"), guessed(Answer::Number(2.5), None)]).unwrap();
        assert!(text.contains(r#"{"what":"x","guess":2.5}"#), "{text}");
        let back: Vec<Guessed> = serde_json::from_str(&text).unwrap();
        assert_eq!(back[0], word("it waits"));
        assert_eq!(back[1].guess, Answer::Number(2.5));
    }
}
