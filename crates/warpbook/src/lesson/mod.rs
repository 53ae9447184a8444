//! Sentences and tables that a lesson computes from a record, so that no figure in a notebook is typed by hand.
//!
//! The functions of this module are about records in general and about the regression; [`first`] is about the first kernels of lessons 00 to 02, [`matmul`]
//! about the matrix product, [`training`] about a training, [`precision`] about its types, [`cifar`] about a training on photographs, and [`guide`] about the
//! pairs of the optimisation guide. [`pictures`] draws how CUDA works.

pub mod cifar;
mod counted;
mod edits;
pub mod first;
mod guesses;
pub mod guide;
pub mod matmul;
pub mod pictures;
pub mod pool;
pub mod precision;
mod probes;
mod regression;
pub mod scaling;
pub mod scaling_records;
pub mod stock;
pub mod training;
mod xrays;

pub use counted::counters_of_an_epoch;
pub use edits::{attempt, variant};
pub use guesses::{Guesses, guessed};
pub use probes::{
    Together, WarpRead, WarpReads, mma_sync, mma_sync_ceiling, price_of_the_exchange, same_lines, shared_wavefronts,
    wgmma_counters,
};

pub use regression::*;
pub use xrays::xray_or_why;

use crate::figures;
use crate::prelude::nn::*;
use crate::prelude::*;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};
use warpbook_charts::Table;
use warpbook_record::Measurement;

/// Id of the rung that reaches the same result with less work. All other rungs do the same work and are compared without this one.
pub const LESS_WORK: &str = "07_sufficient_statistics";
/// Time limit after which a program that a lesson runs is stopped.
const PATIENCE: Duration = Duration::from_secs(540);

/// Returns `story` with the results of these rungs at 5 M points, measured here without the timeline of an epoch. Without a GPU, returns `story` unchanged.
///
/// # Errors
/// See [`learn_at`].
pub fn learn(lab: &Lab, story: &Run, ids: &[&str]) -> Result<Run> {
    learn_at(lab, story, &Regression::new().timelines(false).rungs(ids.iter().copied()))
}

/// Returns `story` with the results of rungs at other sizes, or with other settings.
///
/// # Errors
/// If a setting is out of range, or the device cannot be used at all.
pub fn learn_at(lab: &Lab, story: &Run, experiment: &dyn Experiment) -> Result<Run> {
    match lab.device().cuda() {
        Some(_) => Ok(with(story, &lab.run(experiment)?)),
        None => Ok(story.clone()),
    }
}

/// Returns the record of a training that was completed, and frees its memory.
fn recorded(training: TrainingRun) -> Result<Run> {
    let (record, _, error) = training.into_parts();
    error.map_or(Ok(record), |error| Err(error.into()))
}

/// Returns `story` with the results of a later run on the same device, which replace the results for the same rungs and sizes.
#[must_use]
pub fn with(story: &Run, new: &Run) -> Run {
    let mut story = story.clone();
    for rung in &new.rungs {
        match story.rungs.iter_mut().find(|r| r.id == rung.id) {
            Some(known) => known.clone_from(rung),
            None => story.rungs.push(rung.clone()),
        }
    }
    let old = |rung: &str, problem: &Problem| new.measurement(rung, problem).is_none();
    story.measurements.retain(|m| old(&m.rung, &m.problem));
    story.train_logs.retain(|l| old(&l.rung, &l.problem));
    story.parts.retain(|s| old(&s.rung, &s.problem));
    story.spans.retain(|s| old(&s.rung, &s.problem));
    story.breakdowns.retain(|b| old(&b.rung, &b.problem));
    story.measurements.extend(new.measurements.iter().cloned());
    story.train_logs.extend(new.train_logs.iter().cloned());
    story.parts.extend(new.parts.iter().cloned());
    story.spans.extend(new.spans.iter().cloned());
    story.breakdowns.extend(new.breakdowns.iter().cloned());
    for (path, source) in &new.sources {
        story.sources.entry(path.clone()).or_insert_with(|| source.clone());
    }
    story
}

/// Returns `story` with the rungs of another framework, from the record that a program writes to the file given as `--out`, and a sentence on the outcome.
///
/// If the story has such rungs already, if there is no GPU, or if the program fails, the story stays as it is.
#[must_use]
pub fn learn_from(lab: &Lab, story: &Run, program: &str, arguments: &[&str]) -> (Run, String) {
    let known = external(story);
    if !known.is_empty() {
        let made = story.environment.libraries.iter().map(|(name, version)| format!("{name} {version}"));
        let with = listed(made.collect());
        let with = if with.is_empty() { String::new() } else { format!(" (made with {with})") };
        let device = &story.environment.device.name;
        let known = listed(known);
        return (story.clone(), format!("The record of {device} has {known} already{with}: nothing was run here."));
    }
    if lab.device().cuda().is_none() {
        let sentence = format!(
            "There is no GPU in this lab, so {program} was not run, and no record has its figures: \
             what is said of other frameworks below stays empty."
        );
        return (story.clone(), sentence);
    }
    absorb_from(story, program, arguments, PATIENCE)
}

/// Runs a program that writes a record, and merges that record.
fn absorb_from(story: &Run, program: &str, arguments: &[&str], patience: Duration) -> (Run, String) {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let file = std::env::temp_dir().join(format!("warpbook-{}-{number}.json", std::process::id()));
    let unchanged = |why: String| (story.clone(), format!("{why} The story stays without its figures."));
    // The program measures the same problems, by these ids.
    let like = file.with_extension("like.json");
    if let Err(why) = write_record(story, &like) {
        return unchanged(why.to_string());
    }
    let ended = run_program(program, arguments, [&file, &like], patience);
    let record = read_record(&file);
    for temporary in [&file, &like] {
        let _ = std::fs::remove_file(temporary);
    }
    // A record with failed rows is accepted; its rows say that they failed.
    let Ok(record) = record else { return unchanged(ended.err().unwrap_or(format!("{program} wrote no record."))) };
    let (mut merged, (measured, skipped, failed)) = (story.clone(), record.counts());
    let libraries = record.environment.libraries.iter().map(|(name, version)| format!("{name} {version}"));
    let made = listed(libraries.collect());
    match merged.absorb(record) {
        Ok(()) => (merged, format!("{made}: {measured} measured, {skipped} skipped, {failed} failed.")),
        Err(why) => unchanged(why),
    }
}

/// Returns the command for a program that may be a Python interpreter, without the environment variables that are meant for Jupyter's interpreter.
fn foreign(program: &str) -> Command {
    let mut command = Command::new(program);
    command.env_remove("VIRTUAL_ENV").env_remove("PYTHONNOUSERSITE");
    command
}

/// Runs the program to its end, and prints its output; returns a sentence on the error, if there was one.
fn run_program(
    program: &str,
    arguments: &[&str],
    [out, like]: [&PathBuf; 2],
    patience: Duration,
) -> Result<(), String> {
    let mut command = foreign(program);
    command
        .args(arguments)
        .arg("--out")
        .arg(out)
        .arg("--like")
        .arg(like)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|e| format!("{program} could not be started: {e}."))?;
    // Output is read line by line, so that a notebook shows it while the program runs.
    let (sender, said) = std::sync::mpsc::channel();
    let stderr = child.stderr.take();
    std::thread::spawn(move || {
        for line in stderr.into_iter().flat_map(|s| BufReader::new(s).lines().map_while(Result::ok)) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    let (begin, mut last) = (Instant::now(), String::new());
    let status = loop {
        match said.recv_timeout(Duration::from_millis(100)) {
            Ok(line) => {
                let line: String = line.chars().filter(|c| !c.is_control()).collect();
                println!("{}", line.replace("EVCXR_", "EVCXR "));
                let _ = std::io::stdout().flush();
                last = line;
            }
            // The exit status is read only when no line has arrived, so that the last lines are not lost. Waiting for the end of the output could take long,
            // since child processes may keep it open.
            Err(why) => {
                match child.try_wait() {
                    Ok(Some(status)) => break status,
                    Ok(None) => {}
                    Err(e) => return Err(format!("{program} could not be waited for: {e}.")),
                }
                if why == RecvTimeoutError::Disconnected {
                    std::thread::sleep(Duration::from_millis(100));
                }
            }
        }
        if begin.elapsed() >= patience {
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!("{program} had not ended after {} s.", patience.as_secs()));
        }
    };
    match (status.success(), last.as_str()) {
        (true, _) => Ok(()),
        (false, "") => Err(format!("{program} ended with {status} and without a word.")),
        (false, last) => Err(format!("{program} ended with {status}: {last}")),
    }
}

/// Returns the titles of the rungs of other frameworks.
fn external(run: &Run) -> Vec<String> {
    let theirs = run.rungs.iter().filter(|r| r.framework().is_some());
    theirs.map(|r| r.title.to_string()).collect()
}

fn listed(names: Vec<String>) -> String {
    match names.as_slice() {
        [rest @ .., last] if !rest.is_empty() => format!("{} and {last}", rest.join("; ")),
        _ => names.concat(),
    }
}

/// Returns a record with only these rungs, at its main size.
#[must_use]
pub fn only(run: &Run, ids: &[&str]) -> Run {
    let (mut part, main) = (run.clone(), run.main_problem());
    let wanted = |id: &str| ids.contains(&id);
    part.rungs.retain(|r| wanted(&r.id));
    part.measurements.retain(|m| wanted(&m.rung) && Some(&m.problem) == main);
    part.train_logs.retain(|l| wanted(&l.rung) && Some(&l.problem) == main);
    part.parts.retain(|s| wanted(&s.rung) && Some(&s.problem) == main);
    part.spans.retain(|s| wanted(&s.rung) && Some(&s.problem) == main);
    part.breakdowns.retain(|b| wanted(&b.rung) && Some(&b.problem) == main);
    part
}

/// Returns a record without these rungs.
#[must_use]
pub fn without(run: &Run, ids: &[&str]) -> Run {
    let (mut part, kept) = (run.clone(), |id: &str| !ids.contains(&id));
    part.rungs.retain(|r| kept(&r.id));
    part.measurements.retain(|m| kept(&m.rung));
    part.train_logs.retain(|l| kept(&l.rung));
    part.parts.retain(|s| kept(&s.rung));
    part.spans.retain(|s| kept(&s.rung));
    part.breakdowns.retain(|b| kept(&b.rung));
    part
}

/// Returns a record with only this size.
#[must_use]
pub fn at(run: &Run, problem: &Problem) -> Run {
    let mut part = run.clone();
    part.measurements.retain(|m| m.problem == *problem);
    part.train_logs.retain(|l| l.problem == *problem);
    part.parts.retain(|s| s.problem == *problem);
    part.spans.retain(|s| s.problem == *problem);
    part.breakdowns.retain(|b| b.problem == *problem);
    part
}

/// Returns a rung's measurement at a size, if its result is right.
fn valid<'a>(run: &'a Run, id: &str, problem: &Problem) -> Option<&'a Measurement> {
    run.measurement(id, problem).filter(|m| m.is_valid())
}

/// Returns the median time of a rung in microseconds, if it was measured and its result is right.
#[must_use]
pub fn median_us(run: &Run, id: &str) -> Option<f64> {
    valid(run, id, run.main_problem()?)?.median_us()
}

fn title<'a>(run: &'a Run, id: &'a str) -> &'a str {
    run.rung(id).map_or(id, |r| &r.title)
}

/// Returns a rung's title in quotation marks, for a sentence.
fn quoted(run: &Run, id: &str) -> String {
    format!("“{}”", title(run, id))
}

/// Creates a table with these headers.
#[must_use]
pub fn table(headers: &[&str], rows: Vec<Vec<String>>) -> Table {
    Table { headers: headers.iter().map(|h| (*h).to_owned()).collect(), rows }
}

fn cell(us: Option<f64>) -> String {
    us.map(figures::time).unwrap_or_default()
}

/// Compares the times of two rungs, taking the noise into account.
#[must_use]
pub fn against(run: &Run, new: &str, old: &str) -> String {
    let measured = |id: &str| valid(run, id, run.main_problem()?);
    let (Some(n), Some(o)) = (measured(new), measured(old)) else {
        return format!("{} and {} were not both measured here.", quoted(run, new), quoted(run, old));
    };
    format!(
        "On {}, {} takes {} and {} takes {}: {}.",
        run.environment.device.name,
        quoted(run, new),
        cell(n.median_us()),
        quoted(run, old),
        cell(o.median_us()),
        verdict(n, o)
    )
}

/// Compares a time with an older one, taking the noise into account.
fn verdict(new: &Measurement, old: &Measurement) -> String {
    let (us, was) = (new.median_us().unwrap_or(f64::NAN), old.median_us().unwrap_or(f64::NAN));
    let noise = 3.0 * (new.mad_us().unwrap_or(0.0) + old.mad_us().unwrap_or(0.0)) + 0.01 * was;
    match us - was {
        // Samples this far apart could hide an important difference.
        d if d.abs() <= noise && noise > 0.1 * was => "too noisy to tell".to_owned(),
        d if d.abs() <= noise => "no difference beyond the noise".to_owned(),
        d if d < 0.0 => format!("{} as fast", figures::times(was / us)),
        _ => format!("slower, it takes {} the time", figures::times(us / was)),
    }
}

/// Compares several pairs (new, old), and returns a sentence for each that was measured.
#[must_use]
pub fn against_each(run: &Run, pairs: &[(&str, &str)]) -> Vec<String> {
    let both = |(new, old): &&(&str, &str)| median_us(run, new).is_some() && median_us(run, old).is_some();
    let said: Vec<String> = pairs.iter().filter(both).map(|(new, old)| against(run, new, old)).collect();
    if said.is_empty() { vec!["Nothing of this was measured, so there is nothing to compare.".into()] } else { said }
}

/// Answers from the measurements whether a change helps that was predicted not to help.
#[must_use]
pub fn does_it_help(run: &Run, question: &str, new: &str, old: &str) -> String {
    let answer = match median_us(run, new).zip(median_us(run, old)).map(|(n, o)| n / o) {
        Some(r) if r < 0.97 => "Here it does, against the prediction. Look for the reason before you believe it.",
        Some(r) if r <= 1.03 => "No: it neither helps nor hurts by more than a few per cent.",
        Some(_) => "No: it costs time.",
        None => "That needs a GPU, or the published record, to answer.",
    };
    format!("{question} {answer}")
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use warpbook_device::testing;

    #[test]
    fn a_difference_that_hides_in_noise_is_not_denied() {
        let problem = Regression::new().problems().remove(0);
        let timed = |samples: [f64; 3]| {
            let mut m = Measurement::without_samples("a", problem.clone(), warpbook_record::Outcome::Measured);
            m.set_samples(samples.to_vec(), Vec::new());
            m
        };
        let check = |new, old, expect: &str| assert_eq!(verdict(&timed(new), &timed(old)), expect);
        check([100.9, 101.0, 101.1], [99.9, 100.0, 100.1], "no difference beyond the noise");
        check([97.0, 104.0, 111.0], [60.0, 68.0, 76.0], "too noisy to tell");
        check([49.9, 50.0, 50.1], [99.9, 100.0, 100.1], "2.00× as fast");
    }

    fn published() -> PathBuf {
        testing::manifest_dir(env!("CARGO_MANIFEST_DIR")).join("../../data/results/regression-h200.json")
    }

    fn without_others() -> Run {
        let mut run = read_record(published()).unwrap();
        let theirs: Vec<String> =
            run.rungs.iter().filter(|r| r.framework().is_some()).map(|r| r.id.to_string()).collect();
        run.rungs.retain(|r| r.framework().is_none());
        run.measurements.retain(|m| !theirs.contains(&m.rung));
        run.parts.retain(|s| !theirs.contains(&s.rung));
        run.train_logs.retain(|l| !theirs.contains(&l.rung));
        run
    }

    /// Runs a shell script in place of PyTorch, with `--out FILE --like FILE`.
    fn absorbed(script: &str) -> (Run, String) {
        absorb_from(&without_others(), "sh", &["-c", script, "sh"], Duration::from_secs(20))
    }

    #[test]
    fn what_a_program_writes_is_taken_over() {
        let mut theirs = read_record(published()).unwrap();
        theirs.rungs.retain(|r| r.framework().is_some());
        let ids: Vec<String> = theirs.rungs.iter().map(|r| r.id.to_string()).collect();
        theirs.measurements.retain(|m| ids.contains(&m.rung));
        theirs.xrays.clear();
        let folder = tempfile::tempdir().unwrap();
        let file = write_record(&theirs, folder.path().join("theirs.json")).unwrap();
        let copy = format!("echo one >&2; cp '{}' \"$2\"", file.display());
        let (story, said) = absorbed(&copy);
        assert_eq!(external(&story).len(), ids.len(), "{said}");
        assert!(said.contains("PyTorch") && said.contains("0 failed"), "{said}");
        // A failed row does not undo the others.
        let (story, said) = absorbed(&format!("{copy}; exit 1"));
        assert_eq!(external(&story).len(), ids.len(), "{said}");
    }

    #[test]
    fn a_program_that_fails_leaves_the_story_as_it_is() {
        let before = without_others();
        let check = |(story, said): (Run, String), expect: &str| {
            assert!(said.contains(expect), "{said}");
            assert!(said.ends_with('.') && story == before);
        };
        check(absorbed("echo 'PyTorch is missing' >&2; exit 2"), "exit status: 2: PyTorch is missing");
        check(absorbed("exit 3"), "without a word");
        check(absorbed("exit 0"), "wrote no record");
        check(absorbed("echo '{}' > \"$2\""), "wrote no record");
        check(absorb_from(&before, "no-such-program", &[], Duration::from_secs(20)), "could not be started");
        let begin = Instant::now();
        check(absorb_from(&before, "sh", &["-c", "sleep 60"], Duration::from_millis(200)), "had not ended");
        // The script leaves another process behind, which holds its output open.
        check(absorbed("sleep 60 & exit 4"), "exit status: 4");
        assert!(begin.elapsed() < Duration::from_secs(30));
        // The script returns rungs that the record already has.
        check(absorbed(&format!("cp '{}' \"$2\"", published().display())), "Both records have the rung");
    }
}
