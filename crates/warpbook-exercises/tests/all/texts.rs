//! Tests that every exercise has its texts, and that they agree with its definition.

use crate::files::{files_in, folder, is_handout, kernels, notebooks, source, text, wrong_answers};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use toml::de::DeTable;
use warpbook_exercises::all;

/// Returns a text in which all white space is replaced by single spaces.
fn squeezed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn ids_ascend_and_name_their_folders() {
    let all = all();
    assert!(all.windows(2).all(|pair| pair[0].id < pair[1].id));
    for definition in &all {
        assert!(definition.folder.starts_with(&format!("{}_", definition.id)), "{}", definition.folder);
        assert!(folder(definition).is_dir(), "{}", definition.folder);
    }
}

/// Returns the folders without an exercise, and the exercises without a folder.
fn unpaired(folders: &[String], exercises: &[&str]) -> Vec<String> {
    let strays = folders.iter().filter(|folder| !exercises.contains(&folder.as_str()));
    let strays = strays.map(|folder| format!("notebooks/exercises/{folder} is no exercise of `all()`"));
    let missing = exercises.iter().filter(|name| !folders.iter().any(|folder| folder == *name));
    strays.chain(missing.map(|name| format!("{name} has no folder in notebooks/exercises"))).collect()
}

#[test]
fn every_folder_is_an_exercise_and_every_exercise_has_a_folder() {
    let folders: Vec<String> = files_in(&notebooks().join("exercises"))
        .iter()
        .filter(|path| path.is_dir())
        .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
        .collect();
    let exercises: Vec<&str> = all().iter().map(|definition| definition.folder).collect();
    assert!(!folders.is_empty());
    assert_eq!(unpaired(&folders, &exercises), Vec::<String>::new());
}

#[test]
fn a_stray_folder_and_a_missing_one_are_named() {
    let folders = ["E01_one", "E03_three"].map(str::to_owned);
    let found = unpaired(&folders, &["E01_one", "E02_two"]);
    assert!(found[0].contains("E03_three is no exercise") && found[1].contains("E02_two has no folder"), "{found:?}");
}

#[test]
fn tasks_have_title_signature_and_target() {
    for (definition, task) in kernels() {
        let words = squeezed(&text(&definition, "task.md"));
        // A task with a number to reach has a target; a task without one has a goal.
        let end = if task.targets.is_empty() { "**Goal:**" } else { "**Target:**" };
        for part in [&format!("# {}: {}", definition.id, definition.title), task.signature, "**Launch:**", end] {
            assert!(words.contains(&squeezed(part)), "{} does not say `{part}`", definition.folder);
        }
    }
}

#[test]
fn stubs_have_the_signature_and_say_what_to_do() {
    for (definition, task) in kernels() {
        let stub = text(&definition, "stub.cu");
        assert!(stub.contains("TODO"), "{}", definition.folder);
        assert!(squeezed(&stub).contains(task.signature), "{}", definition.folder);
    }
}

/// Returns the sources of a lesson's cells, each with its kind.
fn cells(lesson: &str) -> Vec<(String, String)> {
    let path = notebooks().join(lesson).with_extension("ipynb");
    let book: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    let cell = |cell: &Value| (cell["cell_type"].as_str().unwrap_or_default().to_owned(), source(cell));
    book["cells"].as_array().into_iter().flatten().map(cell).collect()
}

#[test]
fn every_exercise_has_its_task_and_its_stub_in_a_lesson() {
    let mut wrong = Vec::new();
    for (definition, _) in kernels() {
        let cells = cells(definition.lesson);
        let opens = format!("lab.exercise(\"{}\")", definition.id);
        let Some(at) = cells.iter().position(|(kind, text)| kind == "code" && text.contains(&opens)) else {
            wrong.push(format!("{} has no cell for {}", definition.lesson, definition.id));
            continue;
        };
        if !squeezed(&cells[at].1).contains(&squeezed(&text(&definition, "stub.cu"))) {
            wrong.push(format!("the cell of {} has another stub", definition.id));
        }
        let task = text(&definition, "task.md");
        let (_, task) = task.split_once('\n').unwrap();
        let before = at.checked_sub(1).map_or("", |before| cells[before].1.as_str());
        if !squeezed(before).contains(&squeezed(task)) {
            wrong.push(format!("the cell before the stub of {} has another task", definition.id));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn there_are_three_hints() {
    for (definition, _) in kernels() {
        let file = text(&definition, "hints.toml");
        let table = DeTable::parse(&file).unwrap_or_else(|why| panic!("{}: {why}", definition.folder));
        let hints = table.get_ref()["hints"].get_ref().as_array().unwrap();
        assert_eq!(hints.len(), 3, "{}", definition.folder);
        let is_sentence = |hint: &str| hint.len() > 20;
        assert!(hints.iter().all(|hint| hint.get_ref().as_str().is_some_and(is_sentence)), "{}", definition.folder);
    }
}

#[test]
fn solutions_are_explained_and_wrong_answers_have_four_causes() {
    if is_handout("solutions_are_explained_and_wrong_answers_have_four_causes") {
        return;
    }
    for (definition, task) in kernels() {
        let solution = text(&definition, "solution.cu");
        assert!(squeezed(&solution).contains(task.signature) && solution.contains("//"), "{}", definition.folder);
        let causes: BTreeSet<String> = wrong_answers(&definition).into_iter().map(|(_, cause, _)| cause).collect();
        assert!(causes.len() >= 4, "{} has {} causes", definition.folder, causes.len());
    }
}

/// Causes of answers that only seem right. The wrong answers of every exercise must include each of them.
const CHEATS: [&str; 8] =
    ["nothing_written", "zeros", "copy", "nan", "fixed_size", "race", "out_of_bounds", "later_launch"];
/// Exceptions, which an exercise cannot have: E01 has no input and only one size, integers are never NaN, and E07 has its own name for a copy.
const NOT_THERE: [(&str, &[&str]); 3] =
    [("E01", &["copy", "nan", "fixed_size"]), ("E07", &["copy", "nan"]), ("E16", &["nan"])];

#[test]
fn every_exercise_tries_all_cheats() {
    if is_handout("every_exercise_tries_all_cheats") {
        return;
    }
    for (definition, _) in kernels() {
        let causes: BTreeSet<String> = wrong_answers(&definition).into_iter().map(|(_, cause, _)| cause).collect();
        let excused = NOT_THERE.iter().find(|(id, _)| *id == definition.id).map_or(&[][..], |(_, all)| *all);
        let missing: Vec<_> = CHEATS.iter().filter(|c| !causes.contains(**c) && !excused.contains(*c)).collect();
        let file = text(&definition, "wrong/lucky_race.cu");
        assert!(file.starts_with("// cause: race\n"), "{}", definition.folder);
        assert!(missing.is_empty(), "{} has no wrong answer with {missing:?}", definition.folder);
    }
}
