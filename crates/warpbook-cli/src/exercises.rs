//! The command `warpbook exercise`.

use crate::args::{ExerciseArgs, ExerciseCommand};
use crate::failure::{Failure, RUNG_FAILED};
use crate::output::{say, warn};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use warpbook::exercise::{Definition, Exercise, Task, Tried, Verdict};
use warpbook::{Exercises, Lab, Show, all_exercises};

/// Time between two checks of a watched file.
const LOOK: Duration = Duration::from_millis(200);

/// Lists, shows, tries and watches exercises.
pub fn exercise(args: &ExerciseArgs) -> Result<ExitCode, Failure> {
    let lab = Lab::new()?;
    let lab = match &args.name {
        Some(name) => lab.with_author(name.clone()),
        None => lab,
    };
    match &args.what {
        ExerciseCommand::List => list(&lab)?,
        ExerciseCommand::Show { id } => say(&lab.exercise(id)?.text()),
        ExerciseCommand::Try { id, given } => return attempt(&lab.exercise(id)?, given),
        ExerciseCommand::Watch { id, file } => watch(&lab, id.as_deref(), file.as_deref())?,
        ExerciseCommand::Hint { id, number } => {
            let exercise = lab.exercise(id)?;
            let next = exercise.progress().hints as usize + 1;
            // After the last hint, the last hint is shown again.
            let hint = match number {
                Some(number) => exercise.hint(*number)?,
                None => exercise.hint(next).or_else(|why| if next > 1 { exercise.hint(next - 1) } else { Err(why) })?,
            };
            say(&hint.text());
        }
        ExerciseCommand::Solution { id } => say(&lab.exercise(id)?.solution()?.text()),
        ExerciseCommand::Reset { id } => {
            let exercise = lab.exercise(id)?;
            match exercise.reset()? {
                Some(old) => say(&format!("Your file is now {}.", old.display())),
                None => say("There was no file of yours."),
            }
            say(&format!("{} is the stub again.", exercise.file().display()));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints a line for each exercise, and where the learner's progress is kept.
fn list(lab: &Lab) -> Result<(), Failure> {
    let all = all_exercises();
    let width = |text: fn(&Definition) -> usize| all.iter().map(text).max().unwrap_or(0);
    let (lessons, titles) = (width(|one| one.lesson.len()), width(|one| one.title.chars().count()));
    for one in &all {
        let state = match one.task {
            Task::Function(_) => "in the notebook only".into(),
            _ => state(&lab.exercise(one.id)?),
        };
        say(&format!("{}  {:lessons$}  {:titles$}  {state}", one.id, one.lesson, one.title));
    }
    let first = all.first().map(|one| lab.exercise(one.id)).transpose()?;
    if let Some(path) = first.as_ref().and_then(Exercise::progress_file) {
        say(&format!("Your progress is kept in {}.", path.display()));
    }
    Ok(())
}

/// Describes the learner's progress on an exercise.
fn state(exercise: &Exercise) -> String {
    let progress = exercise.progress();
    match (progress.best(), progress.count) {
        (None, _) => "-".into(),
        (Some(best), 1) => format!("{} (1 try)", best.words()),
        (Some(best), count) => format!("{} ({count} tries)", best.words()),
    }
}

/// Tries an answer once, and prints the result.
fn attempt(exercise: &Exercise, given: &[String]) -> Result<ExitCode, Failure> {
    let id = exercise.definition().id;
    let tried = match (&exercise.definition().task, given) {
        (Task::Answers(_), _) => exercise.answer(&given.iter().map(String::as_str).collect::<Vec<_>>())?,
        (Task::Function(_), _) => {
            return Err(Failure::usage(format!("{id} asks for a Rust function: try it in its lesson's notebook.")));
        }
        (Task::Kernel(_), [file]) => exercise.try_path(Path::new(file))?,
        (Task::Kernel(_), []) if !exercise.file().is_file() => {
            let path = exercise.open()?;
            say(&format!("The stub is in {}: edit it, and try again.", path.display()));
            return Ok(ExitCode::from(RUNG_FAILED));
        }
        (Task::Kernel(_), []) => exercise.try_file()?,
        (Task::Kernel(_), _) => return Err(Failure::usage(format!("{id} takes one file, not {}.", given.len()))),
    };
    say(&tried.text());
    Ok(if tried.verdict.is_right() { ExitCode::SUCCESS } else { ExitCode::from(RUNG_FAILED) })
}

/// Tries a file at each save, and moves on to the next exercise when it is right.
fn watch(lab: &Lab, id: Option<&str>, file: Option<&Path>) -> Result<(), Failure> {
    let all = all_exercises();
    let is_kernel = |one: &&Definition| matches!(one.task, Task::Kernel(_));
    let mut left: Vec<Exercise> = Vec::new();
    let first = match id {
        Some(id) => lab.exercise(id)?.definition().id,
        None => "",
    };
    for one in all.iter().filter(is_kernel).filter(|one| one.id >= first) {
        left.push(lab.exercise(one.id)?);
    }
    if let Some(id) = id
        && left.first().is_none_or(|exercise| exercise.definition().id != first)
    {
        return Err(Failure::usage(format!("{id} asks for no kernel, so there is no file to watch.")));
    }
    // An exercise that was named is watched even if it is right already; other exercises are watched only if they are
    // not right yet.
    let is_wanted = |exercise: &Exercise| {
        exercise.definition().id == first || !exercise.progress().best().is_some_and(Verdict::is_right)
    };
    let mut left = left.into_iter().filter(is_wanted);
    let Some(mut exercise) = left.next() else {
        say("All exercises are right.");
        return Ok(());
    };
    loop {
        let path = match file {
            Some(file) => file.to_owned(),
            None => exercise.open()?,
        };
        say(&format!("{}\n", exercise.text()));
        say(&format!("Watching {}: save it to try. Ctrl-C ends.\n", path.display()));
        until_right(&exercise, &path)?;
        match left.next() {
            Some(next) if file.is_none() => exercise = next,
            Some(next) => {
                say(&format!("Next: {} {}.", next.definition().id, next.definition().title));
                return Ok(());
            }
            None => {
                say("That was the last one.");
                return Ok(());
            }
        }
    }
}

/// Tries a file now and at each change, until it is right.
fn until_right(exercise: &Exercise, path: &Path) -> Result<Tried, Failure> {
    let mut last: Option<Vec<u8>> = None;
    loop {
        // An editor may replace the file, so the file may be missing for a moment.
        let bytes = std::fs::read(path).ok().filter(|bytes| last.as_ref() != Some(bytes));
        if let Some(bytes) = bytes {
            match exercise.try_path(path) {
                Ok(tried) => {
                    say(&format!("{}\n", tried.text()));
                    if tried.verdict.is_right() {
                        return Ok(tried);
                    }
                }
                Err(warpbook::Error::Read { path, why }) => warn(&format!("{} cannot be read: {why}.", path.display())),
                Err(why) => return Err(why.into()),
            }
            last = Some(bytes);
        }
        std::thread::sleep(LOOK);
    }
}
