//! Tests of `warpbook exercise` with the workshop's exercises.

use crate::common::place::{Done, Place};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};
use warpbook::device::testing;

/// Returns the folder of the exercises in the repository.
fn exercises() -> PathBuf {
    testing::manifest_dir(env!("CARGO_MANIFEST_DIR")).join("../../notebooks/exercises")
}

/// Copies the texts of an exercise into a folder with the same layout, so that learners' files are written to that
/// folder.
fn copied(place: &Place, name: &str) {
    let to = place.path("notebooks/exercises").join(name);
    std::fs::create_dir_all(&to).unwrap();
    for file in ["task.md", "stub.cu", "hints.toml"] {
        let from = exercises().join(name).join(file);
        // An exercise with questions has no stub.
        if from.is_file() {
            std::fs::copy(from, to.join(file)).unwrap();
        }
    }
}

fn command(place: &Place, words: &[&str]) -> std::process::Command {
    let mut command = place.command(&[&["exercise"], words, &["--name", "ada"]].concat());
    command.env("WARPBOOK_PROGRESS", place.path("progress")).env("WARPBOOK_DEVICE", "cpu");
    command.env_remove("WARPBOOK_EXERCISES").env_remove("WARPBOOK_SOLUTIONS");
    command
}

fn run(place: &Place, words: &[&str]) -> Done {
    Done::new(words, command(place, words).output().unwrap())
}

/// Returns E05's solution; prints that the test is skipped and returns `None` in a hand-out, which has no solutions.
fn solution(test: &str) -> Option<String> {
    let solution = std::fs::read_to_string(exercises().join("E05_saxpy/solution.cu")).ok();
    if solution.is_none() {
        println!("skipped: {test} needs a solution, and this is a hand-out");
    }
    solution
}

#[test]
fn an_exercise_is_shown_tried_and_reset() {
    let Some(place) = Place::new() else { return };
    let Some(right) = solution("an_exercise_is_shown_tried_and_reset") else { return };
    copied(&place, "E05_saxpy");
    run(&place, &["show", "E05"]).expect(0, "`warpbook exercise try E05` in a terminal, puts the stub into ");
    run(&place, &["solution", "e5"]).expect(2, "hand-out");
    let first = run(&place, &["try", "E05"]);
    assert_eq!(first.code, Some(1), "{}{}", first.out, first.err);
    assert!(first.out.contains("edit it, and try again"), "{}", first.out);
    run(&place, &["show", "E05"]).expect(0, "Your file: ");
    let unchanged = run(&place, &["try", "E05"]);
    assert!(unchanged.code == Some(1) && unchanged.out.contains("E05 UNCHANGED"), "{}", unchanged.out);
    place.write("mine.cu", right.replace("i < n", "i <= n"));
    let wrong = run(&place, &["try", "E05", "mine.cu"]);
    assert!(wrong.code == Some(1) && wrong.out.contains("E05 NOT YET: At n = "), "{}", wrong.out);
    run(&place, &["hint", "E05"]).expect(0, "Hint 1 of 3");
    run(&place, &["hint", "E05"]).expect(0, "Hint 2 of 3");
    run(&place, &["hint", "E05", "9"]).expect(2, "its hints are 1 to 3");
    place.write("notebooks/work/E05.cu", &right);
    run(&place, &["try", "E05"]).expect(0, "E05 RIGHT AND ON TARGET");
    run(&place, &["show", "5"]).expect(0, "RIGHT AND ON TARGET, after 3 tries.");
    run(&place, &["reset", "E05"]).expect(0, "E05.1.cu");
    assert_eq!(std::fs::read_to_string(place.path("notebooks/work/E05.1.cu")).unwrap(), *right);
    let kept = std::fs::read(place.path("progress/ada.json")).unwrap();
    let progress = warpbook_record::Progress::from_json(&kept).unwrap();
    assert_eq!((progress.person.as_str(), progress.exercise("E05").unwrap().hints), ("ada", 2));
}

#[test]
fn what_is_not_there_is_told_with_a_remedy() {
    let Some(place) = Place::new() else { return };
    run(&place, &["list"]).expect(2, "WARPBOOK_EXERCISES");
    copied(&place, "E05_saxpy");
    run(&place, &["show", "E77"]).expect(2, "no exercise `E77`");
    run(&place, &["show", "E01"]).expect(2, "E01 has no folder");
    run(&place, &["try", "E05", "no.cu"]).expect(2, "no.cu cannot be read");
    run(&place, &["try", "E05", "a.cu", "b.cu"]).expect(2, "one file, not 2");
}

#[test]
fn the_list_has_every_exercise() {
    let Some(place) = Place::new() else { return };
    let mut command = command(&place, &["list"]);
    let done = Done::new(&["list"], command.env("WARPBOOK_EXERCISES", exercises()).output().unwrap());
    done.expect(0, "E05");
    let (lines, last): (Vec<&str>, _) = (done.out.lines().collect(), done.out.lines().last().unwrap());
    assert_eq!(lines.len(), warpbook::all_exercises().len() + 1);
    assert!(last.starts_with("Your progress is kept in ") && last.ends_with(".json."), "{last}");
}

#[test]
fn a_watched_file_is_tried_at_each_save_until_it_is_right() {
    let Some(place) = Place::new() else { return };
    let Some(right) = solution("a_watched_file_is_tried_at_each_save_until_it_is_right") else { return };
    copied(&place, "E05_saxpy");
    for other in warpbook::all_exercises().iter().filter(|one| one.id > "E05") {
        copied(&place, other.folder);
    }
    place.write("mine.cu", right.replace("a * x", "x"));
    let begun = Instant::now();
    let log = std::fs::File::create(place.path("log")).unwrap();
    let child = command(&place, &["watch", "E05", "mine.cu"]).stdout(log).stderr(Stdio::piped()).spawn();
    let mut child = child.unwrap();
    let text = || std::fs::read_to_string(place.path("log")).unwrap();
    while !text().contains("E05 NOT YET") && begun.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(50));
    }
    place.write("mine.cu", &right);
    while child.try_wait().unwrap().is_none() && begun.elapsed() < Duration::from_secs(90) {
        std::thread::sleep(Duration::from_millis(50));
    }
    let _ = child.kill();
    assert!(child.wait().unwrap().success(), "{}", text());
    assert!(text().contains("E05 RIGHT AND ON TARGET") && text().contains("Next: E06"), "{}", text());
}
