//! Tests that solutions use only CUDA names that a lesson has explained before the exercise.

use crate::files::{is_handout, kernels, notebooks, source, text};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;

/// C++ words that lesson 00 explains with its first kernel or in its table for Rust readers, or that also exist in Rust.
const WORDS: [&str; 11] =
    ["const", "else", "extern", "float", "for", "if", "int", "return", "unsigned", "void", "while"];

/// Returns a source without comments and string literals.
fn code(source: &str) -> String {
    let mut code = String::new();
    for line in source.lines() {
        let line = line.split("//").next().unwrap_or_default();
        // Every second part is outside of quotation marks.
        line.split('"').step_by(2).for_each(|part| code.push_str(part));
        code.push('\n');
    }
    code
}

/// Returns the words of a text; a word does not start with a digit.
fn words(text: &str) -> Vec<&str> {
    let all = text.split(|c: char| !c.is_alphanumeric() && c != '_');
    all.filter(|word| word.starts_with(|c: char| c.is_alphabetic() || c == '_')).collect()
}

/// Returns the CUDA names that a kernel uses: all words that are neither C++ nor declared in the kernel.
fn names(source: &str) -> BTreeSet<String> {
    let code = code(source);
    let words = words(&code);
    let is_type =
        |word: &str| WORDS.contains(&word) && !["else", "extern", "for", "if", "return", "while"].contains(&word);
    // A word that follows a type is declared there; the star of a pointer is not a word.
    let declared: BTreeSet<&str> = words.windows(2).filter(|pair| is_type(pair[0])).map(|pair| pair[1]).collect();
    let is_name = |word: &&&str| !WORDS.contains(*word) && !declared.contains(*word) && word.len() > 1;
    words.iter().filter(is_name).map(|word| (*word).to_owned()).collect()
}

/// Returns the words that are explained before an exercise: the words of all text cells up to the exercise's cell in the lesson `until`. `None` if the lesson
/// has no such cell.
fn explained(lessons: &[(String, Value)], until: &str, id: &str) -> Option<BTreeSet<String>> {
    let mut known = BTreeSet::new();
    for (name, lesson) in lessons {
        for cell in lesson["cells"].as_array().into_iter().flatten() {
            let source = source(cell);
            if cell["cell_type"] == "code" {
                if name == until && source.contains(&format!("exercise(\"{id}\")")) {
                    return Some(known);
                }
            } else {
                known.extend(words(&source).into_iter().map(str::to_owned));
            }
        }
    }
    None
}

/// The exercises of the first evening, when learners do not know CUDA yet.
const FIRST: std::ops::RangeInclusive<&str> = "E01"..="E09";

#[test]
fn every_name_in_the_first_solutions_is_explained_in_a_text_before() {
    if is_handout("every_name_in_the_first_solutions_is_explained_in_a_text_before") {
        return;
    }
    let read = |name: &str| {
        let text = fs::read_to_string(notebooks().join(name).with_extension("ipynb")).unwrap();
        (name.to_owned(), serde_json::from_str(&text).unwrap())
    };
    let lessons = ["00_hello_gpu", "01_memory_access"].map(read);
    let mut wrong = Vec::new();
    for (definition, _) in kernels().iter().filter(|(definition, _)| FIRST.contains(&definition.id)) {
        match explained(&lessons, definition.lesson, definition.id) {
            None => wrong.push(format!("{} has no cell for {}", definition.lesson, definition.id)),
            Some(known) => {
                let unknown = names(&text(definition, "solution.cu")).into_iter().filter(|name| !known.contains(name));
                wrong.extend(
                    unknown.map(|name| format!("{} uses `{name}`, which nothing before it explains", definition.id)),
                );
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn names_of_cuda_are_told_from_those_of_the_kernel() {
    let source = "extern \"C\" __global__ void k(const float* in, int n)\n{\n    __shared__ float part[32]; // blockDim\n    \
                  int t = threadIdx.x;\n    if (t < n) part[t] = fmaxf(in[t], 1e-3f);\n    __syncthreads();\n}\n";
    let expected = ["__global__", "__shared__", "__syncthreads", "fmaxf", "threadIdx"];
    assert_eq!(names(source).into_iter().collect::<Vec<_>>(), expected);
}

#[test]
fn a_name_is_explained_only_by_texts_before_the_exercise() {
    let cell = |kind: &str, source: &str| serde_json::json!({"cell_type": kind, "source": [source]});
    let lesson = serde_json::json!({"cells": [
        cell("markdown", "`blockIdx` is the number of a block."),
        cell("code", "let name = \"gridDim\";"),
        cell("code", "let ex = lab.exercise(\"E03\")?;"),
        cell("markdown", "`atomicAdd`"),
    ]});
    let lessons = [("00".to_owned(), lesson)];
    let known = explained(&lessons, "00", "E03").unwrap();
    assert!(known.contains("blockIdx") && !known.contains("gridDim") && !known.contains("atomicAdd"));
    assert_eq!(explained(&lessons, "00", "E04"), None);
    assert_eq!(explained(&lessons, "01", "E03"), None);
}
