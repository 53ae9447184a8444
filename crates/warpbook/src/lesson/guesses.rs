//! A learner's guesses: each is compared with the measurement, drawn, and kept for the score at the end of the lesson.

use super::{at, quoted, table, title, valid};
use crate::figures;
use crate::prelude::*;
use std::path::PathBuf;
use warpbook_charts::{ChartError, Guess, Options};
use warpbook_lab::exercise::{keep_guesses, progress_folder};
use warpbook_record::{Answer, Guessed};

/// Factor within which a guess counts as a good one.
const GOOD: f64 = 1.15;
/// Factor within which a guess still counts as near.
const NEAR: f64 = 2.0;
/// Start of the sentence about a guess that is still `None`.
pub(super) const NONE: &str = "You made no guess.";

fn is_ratio(guess: f64) -> bool {
    guess.is_finite() && guess > 0.0
}

/// The guesses of a lesson with the measurements. A guess is `None` until the learner writes one, as in `Some(2.0)`; `None` is neither judged nor kept. Running
/// a cell again replaces its guess.
///
/// ```
/// use warpbook::lesson::Guesses;
/// let mut guesses: Guesses = Guesses::new("30_mixed_precision");
/// assert_eq!(guesses.times("AMP", None, Some(1.8)), "You made no guess. AMP: 1.80 times.");
/// assert_eq!(guesses.times("AMP", 2.0, Some(1.8)), "AMP: 1.80 times. You guessed 2.00 times, a good guess.");
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Guesses {
    lesson: String,
    all: Vec<Guessed>,
}

impl Guesses {
    /// Creates an empty list at the beginning of a lesson. Records store its guesses under the lesson's name.
    #[must_use]
    pub fn new(lesson: &str) -> Self {
        Self { lesson: lesson.to_owned(), all: Vec::new() }
    }

    pub(super) fn keep(&mut self, what: &str, guess: Answer, measured: Option<Answer>) {
        let new = Guessed { lesson: self.lesson.clone(), what: what.to_owned(), guess, measured };
        match self.all.iter_mut().find(|old| old.what == what) {
            Some(old) => *old = new,
            None => self.all.push(new),
        }
    }

    /// Compares a guess of one rung's speed-up over another, at a size, with the measurement.
    pub fn faster(
        &mut self,
        run: &Run,
        problem: &Problem,
        new: &str,
        old: &str,
        guess: impl Into<Option<f64>>,
    ) -> String {
        self.ratio_of_times(run, problem, ["is", "as fast as"], [new, old], (old, new), guess.into())
    }

    /// Compares a guess of how many times as long one rung takes as another, at a size, with the measurement.
    pub fn longer(
        &mut self,
        run: &Run,
        problem: &Problem,
        new: &str,
        old: &str,
        guess: impl Into<Option<f64>>,
    ) -> String {
        self.ratio_of_times(run, problem, ["takes", "as long as"], [new, old], (new, old), guess.into())
    }

    /// Compares a guess with the ratio of one rung's time to another's, `over` and `under`. The sentence is about the two rungs in `named`, with `verb` and
    /// `comparison` before and after the ratio. The guess is kept under their titles without quotation marks.
    fn ratio_of_times(
        &mut self,
        run: &Run,
        problem: &Problem,
        [verb, comparison]: [&str; 2],
        named: [&str; 2],
        (over, under): (&str, &str),
        guess: Option<f64>,
    ) -> String {
        if let Some(guess) = guess.filter(|guess| !is_ratio(*guess)) {
            return format!(
                "{guess} is not a guess: write a number above 0, such as Some(2.0) for twice and Some(0.5) for half."
            );
        }
        let median_us = |id: &str| valid(run, id, problem).and_then(|m| m.median_us());
        let measured = median_us(over).zip(median_us(under)).map(|(over, under)| over / under);
        if let Some(guess) = guess {
            let [new, old] = named.map(|id| title(run, id));
            let what = format!("{new} {verb} so many times {comparison} {old}, {}", problem.label);
            self.keep(&what, Answer::Number(guess), measured.map(Answer::Number));
        }
        let [new, old] = named.map(|id| quoted(run, id));
        let (before, after) = (format!("{new} {verb}"), format!("{comparison} {old}"));
        let device = &run.environment.device.name;
        let found = measured.map(|ratio| format!("On {device}, {before} {} {after}", figures::times(ratio)));
        match (guess, measured, found) {
            (None, _, Some(found)) => format!("{NONE} {found}."),
            (None, ..) => format!("{NONE} {before} so many times {after}: the two were not both measured here."),
            (Some(guess), Some(measured), Some(found)) => {
                format!("{found}. You guessed {}, {}.", figures::times(guess), judgement(guess, measured))
            }
            (Some(guess), ..) => {
                format!(
                    "You guessed that {before} {} {after}. They were not both measured here.",
                    figures::times(guess)
                )
            }
        }
    }

    /// Compares a guessed ratio with the measured one.
    pub fn times(&mut self, what: &str, guess: impl Into<Option<f64>>, measured: Option<f64>) -> String {
        self.figure(what, guess.into(), measured, |v| format!("{v:.2} times"))
    }

    /// Compares a guess in per cent with the measurement.
    pub fn percent(&mut self, what: &str, guess: impl Into<Option<f64>>, measured: Option<f64>) -> String {
        self.figure(what, guess.into(), measured, |v| format!("{v:.0} %"))
    }

    /// Compares a guess with a measured number in some unit, such as "sectors".
    pub fn number(&mut self, what: &str, unit: &str, guess: impl Into<Option<f64>>, measured: Option<f64>) -> String {
        let written = |v: f64| match v {
            v if v == v.trunc() && v.abs() < 1e6 => format!("{v:.0}"),
            v if v.abs() < 0.01 || v.abs() >= 1e6 => format!("{v:.0e}"),
            v => format!("{v:.1}"),
        };
        let unit = if unit.is_empty() { String::new() } else { format!(" {unit}") };
        self.figure(what, guess.into(), measured, |v| format!("{}{unit}", written(v)))
    }

    /// Compares a guessed count with the measured count.
    pub fn count(&mut self, what: &str, guess: impl Into<Option<usize>>, measured: Option<usize>) -> String {
        self.number(what, "", guess.into().map(|guess| guess as f64), measured.map(|count| count as f64))
    }

    fn figure(
        &mut self,
        what: &str,
        guess: Option<f64>,
        measured: Option<f64>,
        written: impl Fn(f64) -> String,
    ) -> String {
        if let Some(guess) = guess.filter(|guess| !guess.is_finite()) {
            return format!("{guess} is not a guess: write a number.");
        }
        if let Some(guess) = guess {
            self.keep(what, Answer::Number(guess), measured.map(Answer::Number));
        }
        match (guess, measured) {
            (None, Some(measured)) => format!("{NONE} {what}: {}.", written(measured)),
            (None, None) => format!("{NONE} {what}: not measured here."),
            (Some(guess), Some(measured)) => {
                let judged = judgement(guess, measured);
                format!("{what}: {}. You guessed {}, {judged}.", written(measured), written(guess))
            }
            (Some(guess), None) => format!("{what}: you guessed {}. It was not measured here.", written(guess)),
        }
    }

    /// Compares a guessed word with the answer.
    pub fn word<'g>(&mut self, what: &str, guess: impl Into<Option<&'g str>>, measured: Option<&str>) -> String {
        let guess = guess.into().map(str::trim);
        if let Some(guess) = guess {
            self.keep(what, Answer::Word(guess.to_owned()), measured.map(|word| Answer::Word(word.to_owned())));
        }
        match (guess, measured) {
            (None, Some(word)) => format!("{NONE} {what}: {word}."),
            (None, None) => format!("{NONE} {what}: not measured here."),
            (Some(guess), Some(word)) if guess == word => format!("{what}: {word}, as you guessed."),
            (Some(guess), Some(word)) => format!("{what}: {word}. You guessed {guess}."),
            (Some(guess), None) => format!("{what}: you guessed {guess}. It was not measured here."),
        }
    }

    /// Returns the guesses with the measurements, in the order in which the guesses were made.
    #[must_use]
    pub fn all(&self) -> &[Guessed] {
        &self.all
    }

    /// Returns a copy of the record with these guesses added.
    #[must_use]
    pub fn kept_in(&self, run: &Run) -> Run {
        Run { guesses: self.all.clone(), ..run.clone() }
    }

    /// Shows all guesses with the measurements and the number of good guesses, and saves them in the progress file of the lab's author, where they outlast the
    /// notebook's kernel. If the file cannot be written, the panel says so.
    #[must_use]
    pub fn score(&self, lab: &Lab) -> Panel {
        self.score_in(lab, progress_folder())
    }

    fn score_in(&self, lab: &Lab, folder: Option<PathBuf>) -> Panel {
        match keep_guesses(lab.author(), folder, &self.all) {
            Ok(()) => self.table(),
            Err(why) => self
                .table()
                .and(&format!("These guesses are not in your progress file, which cannot be written: {why}.")),
        }
    }

    fn table(&self) -> Panel {
        if self.all.is_empty() {
            return Panel::column([
                &"You made no guess in this lesson. Write one before you open an answer, such as Some(2.0): a figure that you have guessed stays with you.",
            ]);
        }
        let within = |factor: f64| self.all.iter().filter(|g| g.is_within(factor) == Some(true)).count();
        let judged = self.all.iter().filter(|g| g.measured.is_some()).count();
        let said = format!(
            "{} of {judged} guesses are within 15 % of what was measured, {} within a factor of 2.",
            within(GOOD),
            within(NEAR)
        );
        let written = |answer: &Answer| match answer {
            Answer::Number(v) => figures::significant(*v, 3),
            Answer::Word(word) => word.clone(),
        };
        let row = |g: &Guessed| {
            let off = match (g.is_within(GOOD), g.factor()) {
                (None, _) => "not measured".to_owned(),
                (Some(true), _) => "good".to_owned(),
                (_, Some(factor)) => format!("off by {}", figures::times(factor)),
                (..) => "not it".to_owned(),
            };
            vec![g.what.clone(), written(&g.guess), g.measured.as_ref().map(written).unwrap_or_default(), off]
        };
        let rows = self.all.iter().map(row).collect();
        Panel::column([&said, &table(&["what", "your guess", "measured", ""], rows)])
    }
}

/// Describes how far a guess is off.
fn judgement(guess: f64, measured: f64) -> String {
    match guess / measured {
        _ if guess == measured => "exactly that".to_owned(),
        r if (1.0 / GOOD..=GOOD).contains(&r) => "a good guess".to_owned(),
        r if r.is_finite() && r > 1.0 => format!("{} too high", figures::times(r)),
        r if r.is_finite() && r > 0.0 => format!("{} too low", figures::times(1.0 / r)),
        _ => "not it".to_owned(),
    }
}

/// Draws the ladder of these rungs at a size, with a mark where the guess puts the new rung: `guess` times as fast as the old one. Without a guess there is no
/// mark.
///
/// # Errors
/// If none of the rungs was measured at that size.
pub fn guessed(
    run: &Run,
    problem: &Problem,
    (new, old): (&str, &str),
    guess: impl Into<Option<f64>>,
    rungs: &[&str],
) -> std::result::Result<Chart, ChartError> {
    let mut part = at(run, problem);
    let wanted = |id: &str| id == new || id == old || rungs.contains(&id);
    part.rungs.retain(|r| wanted(&r.id));
    part.measurements.retain(|m| wanted(&m.rung));
    let ratio = guess.into().filter(|guess| is_ratio(*guess));
    let us = ratio.and_then(|ratio| Some(valid(&part, old, problem)?.median_us()? / ratio));
    let guess = us.map(|us| Guess { us, label: format!("your guess for {}", title(&part, new)) });
    let options = Options { guess, ..Options::default() };
    options.ladder(&part, problem, part.descriptor.headline)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guess_that_was_not_made_is_neither_judged_nor_kept() {
        let mut guesses = Guesses::new("");
        assert_eq!(guesses.percent("Weak", None, Some(85.4)), "You made no guess. Weak: 85 %.");
        assert_eq!(guesses.word("The bound", None, Some("the link")), "You made no guess. The bound: the link.");
        assert!(guesses.all().is_empty());
        assert!(guesses.table().text().contains("no guess in this lesson"));
    }

    #[test]
    fn guesses_are_judged_kept_once_and_scored() {
        let mut guesses = Guesses::new("");
        assert_eq!(guesses.percent("Weak", 90.0, Some(85.4)), "Weak: 85 %. You guessed 90 %, a good guess.");
        assert!(guesses.percent("Weak", 30.0, Some(90.0)).ends_with("3.00× too low."));
        assert_eq!(guesses.count("Buckets", 3, Some(3)), "Buckets: 3. You guessed 3, exactly that.");
        assert!(guesses.number("Time", "ms", 10.0, None).contains("you guessed 10 ms. It was not measured"));
        assert!(guesses.word("The bound", "L2", Some("the link")).ends_with("You guessed L2."));
        assert!(guesses.times("AMP", f64::NAN, Some(2.0)).contains("not a guess"));
        assert_eq!(guesses.all().len(), 4, "a cell that runs again replaces its guess");
        let text = guesses.table().text();
        assert!(text.contains("1 of 3 guesses are within 15 %") && text.contains("off by 3.00×"), "{text}");
        let empty = Lab::open("cpu").unwrap().run(&Regression::new().points([100]).epochs(2).rungs(["cpu_1_thread"]));
        assert_eq!(guesses.kept_in(&empty.unwrap()).guesses.len(), 4);
    }

    #[test]
    fn the_score_saves_the_guesses_with_the_measurements_for_the_author() {
        let folder = tempfile::tempdir().unwrap();
        let place = || Some(folder.path().join("deep"));
        let lab = Lab::open("cpu").unwrap().with_author("ada");
        let mut guesses = Guesses::new("41_memory");
        assert!(guesses.score_in(&lab, place()).text().contains("no guess"));
        assert!(!folder.path().join("deep").exists(), "nothing is written without a guess");
        let _ = guesses.times("The pool", 30.0, Some(45.0));
        let _ = guesses.word("The bound", "L2", None);
        assert!(guesses.score_in(&lab, place()).text().contains("1 within a factor of 2"));
        let file = std::fs::read(folder.path().join("deep/ada.json")).unwrap();
        assert_eq!(warpbook_record::Progress::from_json(&file).unwrap().guesses, guesses.all());
        // A file in the folder's place.
        let blocked = Some(folder.path().join("deep/ada.json"));
        let text = guesses.score_in(&lab, blocked).text();
        assert!(text.contains("not in your progress file") && text.contains("45"), "{text}");
    }
}
