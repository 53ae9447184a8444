//! The time of a launch by the host's clock: until the launch returns, and until the device has ended.

use super::guess_in_words;
use super::times::origin;
use crate::figures;
use crate::lesson::guide::published;
use crate::lesson::{Guesses, valid};
use crate::prelude::*;
use std::time::Duration;
use warpbook_record::{Answer, stats};

/// Number of kernels that a half of the pair `copy-back` launches.
const LAUNCHES: f64 = 100.0;
/// Size at which the pair `copy-back` is taken from its published record.
const SIZE: u64 = 1000;
/// The question that is guessed, as the score writes it.
const WHAT: &str = "A launch with the wait for its kernel takes so many times as long as without";

/// Shows how long a launch takes by the host's clock, without waiting for the device and with the wait, and compares a guess of the ratio. `clock` has both
/// times of each launch. The published figures come first. In the emulator, where a launch has ended when it returns, they are the only ones.
#[must_use]
pub fn launch_and_wait(lab: &Lab, guesses: &mut Guesses, clock: &[[Duration; 2]], guess: Option<f64>) -> Panel {
    let mut panel = Panel::column([]);
    let there = of_records();
    if let Some((_, said)) = &there {
        panel = panel.and(said);
    }
    let measured = match lab.device().gpu() {
        Some(device) => {
            let found = medians(clock);
            if let Some([returned, ended]) = found {
                let (short, long, times) =
                    (figures::time(returned), figures::time(ended), figures::times(ended / returned));
                panel = panel.and(&format!(
                    "Here, on {}: the launch returns after {short}, and its kernel has ended after {long}, {times} as long (medians of {} launches).",
                    device.info().name,
                    clock.len()
                ));
            }
            found.map(|[returned, ended]| ended / returned)
        }
        None => {
            panel = panel.and(
                &"In the emulator a launch has ended when it returns, and there are no times: nothing was timed here.",
            );
            there.map(|(ratio, _)| ratio)
        }
    };
    if let Some(guess) = guess.filter(|guess| guess.is_finite() && *guess > 0.0) {
        guesses.keep(WHAT, Answer::Number(guess), measured.map(Answer::Number));
    }
    panel.and(&guess_in_words(guess, measured, "long"))
}

/// Returns the medians of both times in microseconds; `None` if nothing was timed.
fn medians(clock: &[[Duration; 2]]) -> Option<[f64; 2]> {
    let median = |which: usize| {
        let us: Vec<f64> = clock.iter().map(|times| times[which].as_secs_f64() * 1e6).collect();
        stats::median(&us).filter(|us| *us > 0.0)
    };
    Some([median(0)?, median(1)?])
}

/// Returns the least ratio according to the published records, and a sentence with both times.
fn of_records() -> Option<(f64, String)> {
    let (waiting, queued) = (published("guide-vector-loads")?, published("guide-copy-back")?);
    let largest = waiting.problems().into_iter().max_by_key(|problem| problem.size())?;
    let ended = valid(&waiting, "01_words", largest)?.median_wall_us()?;
    let of_queued = queued.problems().into_iter().find(|problem| problem.size() == SIZE)?;
    let all = valid(&queued, "02_once", of_queued)?.median_us()?;
    let returned = all / LAUNCHES;
    let ratio = ended / returned;
    let (source, other) = (origin(&waiting), origin(&queued));
    let elsewhere = if source == other { String::new() } else { format!(" (from {other})") };
    let said = format!(
        "From {source}: launching a kernel over {} million elements and waiting for it takes {}. {LAUNCHES} launches with one wait at the end take \
         {}{elsewhere}, so launching alone takes at most {}. With the wait it takes at least {} as long.",
        figures::significant(largest.size() as f64 / 1e6, 3),
        figures::time(ended),
        figures::time(all),
        figures::time(returned),
        figures::times(ratio)
    );
    Some((ratio, said))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_emulator_shows_the_published_figures_and_keeps_a_guess() {
        let lab = Lab::open("emulator").unwrap();
        let mut guesses = Guesses::new("00_hello_gpu");
        let clock = [[Duration::from_micros(7), Duration::from_micros(7)]];
        let mut shown = |guess| launch_and_wait(&lab, &mut guesses, &clock, guess).text();
        let text = shown(None);
        assert!(
            text.contains("published record of NVIDIA H200") && text.contains("Some(2.0) for twice as long"),
            "{text}"
        );
        assert!(text.contains("nothing was timed here") && !text.contains("Here, on"), "{text}");
        assert!(shown(Some(1.0)).contains("too low"));
        assert!(shown(Some(f64::NAN)).contains("not a guess"));
        let kept = guesses.all();
        assert_eq!((kept.len(), kept[0].guess.clone()), (1, Answer::Number(1.0)));
        // A launch of the published records returns long before its kernel has ended.
        assert!(matches!(kept[0].measured, Some(Answer::Number(ratio)) if ratio > 10.0), "{:?}", kept[0]);
    }

    #[test]
    fn the_first_launch_which_loads_the_kernel_does_not_count() {
        let us = Duration::from_micros;
        let clock = [[us(900), us(1200)], [us(4), us(200)], [us(5), us(210)]];
        assert_eq!(medians(&clock), Some([5.0, 210.0]));
        assert_eq!(medians(&[]), None);
    }
}
