//! Every exercise has its texts, and they say the same as its definition.

use crate::files::{files_in, folder, has_solution, kernels, notebooks, text};
use std::collections::BTreeSet;
use warpbook_exercises::all;

/// Returns a text with single spaces.
fn squeezed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn ids_ascend_and_every_folder_is_an_exercise() {
    let all = all();
    assert!(all.windows(2).all(|pair| pair[0].id < pair[1].id));
    for definition in &all {
        assert!(definition.folder.starts_with(&format!("{}_", definition.id)), "{}", definition.folder);
    }
    let known: BTreeSet<String> = all.iter().map(|definition| definition.folder.to_owned()).collect();
    let folders = files_in(&notebooks().join("exercises")).into_iter().filter(|path| path.is_dir());
    let folders: BTreeSet<String> = folders.map(|path| path.file_name().unwrap().to_string_lossy().into()).collect();
    assert_eq!(folders, known);
}

#[test]
fn tasks_have_title_signature_and_target() {
    for (definition, task) in kernels() {
        let words = squeezed(&text(&definition, "task.md"));
        for part in [&format!("# {}: {}", definition.id, definition.title), task.signature, "**Launch:**", "**Target:**"] {
            assert!(words.contains(&squeezed(part)), "{} does not say `{part}`", definition.folder);
        }
    }
}

#[test]
fn stubs_and_solutions_have_the_signature_and_stubs_say_what_to_do() {
    for (definition, task) in kernels() {
        let stub = text(&definition, "stub.cu");
        assert!(stub.contains("TODO"), "{}", definition.folder);
        assert!(squeezed(&stub).contains(task.signature), "{}", definition.folder);
        if has_solution("stubs_and_solutions_have_the_signature_and_stubs_say_what_to_do", &definition) {
            let solution = text(&definition, "solution.cu");
            assert!(squeezed(&solution).contains(task.signature), "{}", definition.folder);
            assert!(solution.contains("//"), "{} explains nothing", definition.folder);
        }
    }
}

#[test]
fn there_are_three_hints_and_four_wrong_answers_with_their_causes() {
    for (definition, _) in kernels() {
        let hints: toml::Table = text(&definition, "hints.toml").parse().unwrap();
        let hints = hints["hints"].as_array().unwrap();
        assert_eq!(hints.len(), 3, "{}", definition.folder);
        assert!(hints.iter().all(|hint| hint.as_str().is_some_and(|hint| hint.len() > 20)), "{}", definition.folder);
        if has_solution("there_are_three_hints_and_four_wrong_answers_with_their_causes", &definition) {
            let wrong = files_in(&folder(&definition).join("wrong"));
            let cause = |path: &std::path::PathBuf| {
                let text = std::fs::read_to_string(path).unwrap();
                text.lines().next().and_then(|line| line.strip_prefix("// cause: ")).map(str::to_owned)
            };
            let causes: BTreeSet<Option<String>> = wrong.iter().map(cause).collect();
            assert!(!causes.contains(&None), "{}: each wrong answer begins with its cause", definition.folder);
            assert!(causes.len() >= 4, "{} has {} causes", definition.folder, causes.len());
        }
    }
}
