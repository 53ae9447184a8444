//! Comparison of a learner's guess with the measurement.

use super::{at, title, valid};
use crate::figures;
use crate::prelude::*;
use warpbook_charts::{ChartError, Guess, Options};

/// Factor within which a guess counts as a good one.
const GOOD: f64 = 1.15;

fn is_ratio(guess: f64) -> bool {
    guess.is_finite() && guess > 0.0
}

/// Compares with the measurement a guess of how many times as fast one rung is as another, at a size.
#[must_use]
pub fn your_guess(run: &Run, problem: &Problem, new: &str, old: &str, guess: f64) -> String {
    if !is_ratio(guess) {
        return format!(
            "{guess} is not a guess: write a number above 0, such as 2.0 for twice as fast and 0.5 for half as fast."
        );
    }
    let said = format!("{} is {} as fast as {}", title(run, new), figures::times(guess), title(run, old));
    compare_guess(run, problem, &said, (old, new), guess)
}

/// Compares with the measurement a guess of how many times as long one rung takes as another, at a size.
#[must_use]
pub fn your_guess_of_time(run: &Run, problem: &Problem, new: &str, old: &str, guess: f64) -> String {
    if !is_ratio(guess) {
        return format!("{guess} is not a guess: write a number above 0, such as 2.0 for twice as long.");
    }
    let said = format!("{} takes {} as long as {}", title(run, new), figures::times(guess), title(run, old));
    compare_guess(run, problem, &said, (new, old), guess)
}

/// Compares a guess in words with the ratio of the first rung's time to the second's.
fn compare_guess(run: &Run, problem: &Problem, said: &str, (over, under): (&str, &str), guess: f64) -> String {
    let median_us = |id: &str| valid(run, id, problem).and_then(|m| m.median_us());
    let Some(measured) = median_us(over).zip(median_us(under)).map(|(over, under)| over / under) else {
        return format!("Your guess: {said}. They were not both measured here.");
    };
    let (device, judged) = (&run.environment.device.name, judgement(guess, measured));
    format!("Your guess: {said}. Measured on {device}: {}, {judged}.", figures::times(measured))
}

/// Describes how far a guess is off.
fn judgement(guess: f64, measured: f64) -> String {
    match guess / measured {
        r if (1.0 / GOOD..=GOOD).contains(&r) => "a good guess".to_owned(),
        r if r > 1.0 => format!("your guess was {} too high", figures::times(r)),
        r => format!("{} what you guessed", figures::times(1.0 / r)),
    }
}

/// Draws the ladder of these rungs at a size, with a mark where the guess puts the new rung: `guess` times as fast as the old one.
///
/// # Errors
/// If none of the rungs was measured at that size.
pub fn guessed(
    run: &Run,
    problem: &Problem,
    (new, old): (&str, &str),
    guess: f64,
    rungs: &[&str],
) -> Result<Chart, ChartError> {
    let mut part = at(run, problem);
    let wanted = |id: &str| id == new || id == old || rungs.contains(&id);
    part.rungs.retain(|r| wanted(&r.id));
    part.measurements.retain(|m| wanted(&m.rung));
    let us = valid(&part, old, problem).and_then(|m| m.median_us()).filter(|_| is_ratio(guess)).map(|us| us / guess);
    let guess = us.map(|us| Guess { us, label: format!("your guess for {}", title(&part, new)) });
    let options = Options { guess, ..Options::default() };
    options.ladder(&part, problem, part.descriptor.headline)
}
