//! The first three lessons: kernels from text, what they do in the emulator, and times from a GPU or from published records.

mod launch;
mod pictures;
mod pictures_shared;
mod tally;
mod times;
mod waiting;

pub use launch::{Given, compile, open, shape, shape_2d};
pub use pictures::{layouts, turns, warp_reads};
pub use pictures_shared::{banks, halo, scan_steps, through_a_tile};
pub use tally::{Tally, tally};
pub use times::{Point, Roof, pair, roof_of, time};
pub use waiting::launch_and_wait;
pub use warpbook_kernels::Launch;

pub use super::Guesses;

use crate::figures;
use std::fmt::Display;
use warpbook_record::Answer;

/// Compares a guessed ratio with the measured one. Without a guess, says how to make one. `how` is the adjective that is compared, such as "fast".
#[must_use]
fn guess_in_words(guess: Option<f64>, measured: Option<f64>, how: &str) -> String {
    match (guess, measured) {
        (None, _) => format!("No guess yet: write Some(2.0) for twice as {how}, and run both cells again."),
        (Some(guess), _) if !(guess.is_finite() && guess > 0.0) => {
            format!("{guess} is not a guess: write a number above 0, such as Some(2.0) for twice as {how}.")
        }
        (Some(guess), None) => format!("You guessed {}. It was not measured.", figures::times(guess)),
        (Some(guess), Some(ratio)) => {
            let judged = match guess / ratio {
                off if (0.8..=1.25).contains(&off) => "a good guess".to_owned(),
                off if off > 1.0 => format!("{} too high", figures::times(off)),
                off => format!("{} too low", figures::times(1.0 / off)),
            };
            format!("You guessed {}: {judged}.", figures::times(guess))
        }
    }
}

/// Compares a guessed count with the emulator's count, and keeps the guess. Without a guess, says how to make one.
#[must_use]
pub fn guessed_count(guesses: &mut Guesses, guess: Option<u64>, counted: u64, noun: &str) -> String {
    let Some(guess) = guess else {
        return format!("No guess yet of the {noun}: write Some(4), say, and run both cells again.");
    };
    guesses.keep(noun, Answer::Number(guess as f64), Some(Answer::Number(counted as f64)));
    if guess == counted {
        return format!("Right: {counted} {noun}.");
    }
    format!("You guessed {guess}; counted: {counted} {noun}.")
}

/// Compares the values that a learner copied back with the expected values.
#[must_use]
pub fn judge<T: PartialEq + Display>(mine: Option<&[T]>, want: &[T]) -> String {
    let Some(mine) = mine else {
        return "Nothing came back yet: put your lines in place of `None`, and run the cell again.".into();
    };
    if mine.len() != want.len() {
        return format!("{} elements came back, and {} are expected.", mine.len(), want.len());
    }
    let right = mine.iter().zip(want).filter(|(mine, want)| mine == want).count();
    match mine.iter().zip(want).position(|(mine, want)| mine != want) {
        None => format!("Right: all {} elements are as expected.", want.len()),
        Some(i) => format!(
            "Element {i} is {}, and should be {}. {right} of {} elements are right.",
            mine[i],
            want[i],
            want.len()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guesses_are_judged_only_if_they_were_made() {
        let mut guesses = Guesses::new("01_memory_access");
        let mut said = |guess| guessed_count(&mut guesses, guess, 8, "sectors");
        assert!(said(None).starts_with("No guess yet"));
        assert_eq!(said(Some(4)), "You guessed 4; counted: 8 sectors.");
        assert_eq!(said(Some(8)), "Right: 8 sectors.");
        assert_eq!((guesses.all().len(), guesses.all()[0].is_within(1.0)), (1, Some(true)));
        assert!(guess_in_words(None, Some(2.0), "fast").starts_with("No guess yet"));
        assert_eq!(guess_in_words(Some(2.2), Some(2.0), "fast"), "You guessed 2.20×: a good guess.");
        assert_eq!(guess_in_words(Some(1.0), Some(4.0), "fast"), "You guessed 1.00×: 4.00× too low.");
        assert!(guess_in_words(Some(f64::NAN), Some(2.0), "fast").contains("not a guess"));
    }

    #[test]
    fn what_came_back_is_compared_element_by_element() {
        assert!(judge::<i32>(None, &[1]).starts_with("Nothing came back yet"));
        assert_eq!(judge(Some(&[1, 2]), &[1, 2]), "Right: all 2 elements are as expected.");
        assert_eq!(judge(Some(&[1, 0, 3]), &[1, 2, 3]), "Element 1 is 0, and should be 2. 2 of 3 elements are right.");
        assert_eq!(judge(Some(&[1]), &[1, 2]), "1 elements came back, and 2 are expected.");
        assert!(judge(Some(&[f32::NAN]), &[f32::NAN]).starts_with("Element 0 is NaN"));
    }
}
