//! Tests of the lessons' edits, as given and with their folded solutions: the passages exist in the kernels, and the
//! edited kernels compile.

use std::fs;
use std::path::Path;
use warpbook::lesson::variant;
use warpbook::prelude::*;

/// An argument of a call, as written in the source.
#[derive(Debug, PartialEq)]
enum Argument {
    Text(String),
    Number(i64),
    /// Any other argument, as text.
    Other(String),
}

/// A chain of calls that makes a kernel, such as `LiveKernel::for_rung("02_coalesced")?.size("BN", 64)`.
#[derive(Debug, PartialEq)]
struct Chain {
    is_product: bool,
    calls: Vec<(String, Vec<Argument>)>,
}

/// A parser for the part of Rust that such chains use.
struct Reader<'t> {
    rest: &'t str,
}

impl<'t> Reader<'t> {
    fn skip_blanks(&mut self) {
        loop {
            self.rest = self.rest.trim_start();
            match self.rest.starts_with("//") {
                true => self.rest = self.rest.split_once('\n').map_or("", |(_, after)| after),
                false => return,
            }
        }
    }

    fn take(&mut self, what: &str) -> bool {
        self.skip_blanks();
        let after = self.rest.strip_prefix(what);
        self.rest = after.unwrap_or(self.rest);
        after.is_some()
    }

    fn word(&mut self) -> &'t str {
        self.skip_blanks();
        let end = self.rest.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    /// Reads a string's value after its opening quote.
    fn text(&mut self) -> String {
        let mut out = String::new();
        let mut chars = self.rest.char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    self.rest = &self.rest[at + 1..];
                    return out;
                }
                '\\' => match chars.next().map(|(_, c)| c) {
                    Some('n') => out.push('\n'),
                    Some('t') => out.push('\t'),
                    Some(c) if c == '"' || c == '\\' => out.push(c),
                    c => panic!("a string with the escape {c:?}"),
                },
                c => out.push(c),
            }
        }
        panic!("a string without an end: {out}")
    }

    fn argument(&mut self) -> Argument {
        if self.take("r#\"") {
            let (text, rest) = self.rest.split_once("\"#").expect("a raw string ends");
            self.rest = rest;
            return Argument::Text(text.to_owned());
        }
        if self.take("\"") {
            return Argument::Text(self.text());
        }
        let mut depth = 0;
        let end = self.rest.find(|c: char| {
            depth += i32::from(matches!(c, '(' | '[' | '{')) - i32::from(matches!(c, ')' | ']' | '}'));
            depth < 0 || (depth == 0 && c == ',')
        });
        let (words, rest) = self.rest.split_at(end.expect("an argument ends"));
        self.rest = rest;
        words.trim().parse().map_or_else(|_| Argument::Other(words.trim().to_owned()), Argument::Number)
    }

    fn arguments(&mut self) -> Vec<Argument> {
        let mut all = Vec::new();
        while !self.take(")") {
            all.push(self.argument());
            self.take(",");
        }
        all
    }

    /// Reads the chain that begins here; its first call names a rung.
    fn chain(&mut self, is_product: bool) -> Chain {
        let mut calls = Vec::from([("of".to_owned(), self.arguments())]);
        loop {
            self.take("?");
            if !self.take(".") {
                return Chain { is_product, calls };
            }
            let name = self.word().to_owned();
            assert!(self.take("("), "{name} is called");
            calls.push((name, self.arguments()));
        }
    }
}

/// Returns all chains in a text that name a rung of the ladders.
fn chains(text: &str) -> Vec<Chain> {
    let mut found = Vec::new();
    for (begin, is_product) in [("LiveKernel::for_rung(", true), (" variant(", false)] {
        for (at, _) in text.match_indices(begin) {
            found.push(Reader { rest: &text[at + begin.len()..] }.chain(is_product));
        }
    }
    found
}

/// Makes the kernel of a chain; `None` if it depends on a loop or a variable.
fn kernel(chain: &Chain) -> Option<Result<LiveKernel>> {
    let mut live: Option<LiveKernel> = None;
    for (name, arguments) in &chain.calls {
        let next = match (&**name, &**arguments, live.take()) {
            ("of", [rung], _) => {
                let id = match rung {
                    Argument::Text(id) => id,
                    Argument::Other(name) if name == "TF32_RUNG" => warpbook::lesson::matmul::TF32_RUNG,
                    Argument::Other(name) if name == "LESS_WORK" => warpbook::lesson::LESS_WORK,
                    _ => return None,
                };
                if chain.is_product { LiveKernel::for_rung(id) } else { variant(id) }
            }
            ("named", [Argument::Text(name)], Some(live)) => Ok(live.named(name)),
            ("replacing", [Argument::Text(passage), Argument::Text(by)], Some(live)) => live.replacing(passage, by),
            ("size", [Argument::Text(name), Argument::Number(value)], Some(live)) => Ok(live.size(name, *value)),
            ("tile", [Argument::Text(id)], Some(live)) => live.tile(id),
            ("source", [Argument::Text(text)], Some(live)) => Ok(live.source(text)),
            ("dtype", [Argument::Other(dtype)], Some(live)) if dtype == "Dtype::Tf32" => Ok(live.dtype(Dtype::Tf32)),
            // These calls only set the problem and the rungs to time with it.
            ("shape" | "against", _, Some(live)) => Ok(live),
            _ => return None,
        };
        match next {
            Ok(next) => live = Some(next),
            error => return Some(error),
        }
    }
    live.map(Ok)
}

/// Returns the cells of a lesson with their index and kind.
fn cells(lesson: &str) -> Vec<(usize, String, String)> {
    let here = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    let text = fs::read_to_string(Path::new(&here).join(format!("../../notebooks/{lesson}.ipynb"))).unwrap();
    let book: serde_json::Value = serde_json::from_str(&text).unwrap();
    let source = |cell: &serde_json::Value| -> String {
        cell["source"].as_array().unwrap().iter().filter_map(serde_json::Value::as_str).collect()
    };
    let kind = |cell: &serde_json::Value| cell["cell_type"].as_str().unwrap_or_default().to_owned();
    book["cells"].as_array().unwrap().iter().enumerate().map(|(i, c)| (i, kind(c), source(c))).collect()
}

#[test]
fn every_edit_and_its_solution_fit_the_kernel_and_compile() {
    let lab = Lab::open("cpu").unwrap();
    let has_compiler = warpbook::device::Compiler::new(None).is_ok();
    let (mut edits, mut starts, mut solutions) = (0, 0, 0);
    for lesson in [
        "10_fused_regression",
        "11_persistent_regression",
        "20_matmul_ladder",
        "21_tensor_cores",
        "22_persistent_product",
    ] {
        for (place, cell, source) in cells(lesson) {
            for chain in chains(&source) {
                let Some(live) = kernel(&chain) else { continue };
                let live = live.unwrap_or_else(|why| panic!("{lesson}, cell {place}: {why}"));
                *if cell == "markdown" { &mut solutions } else { &mut edits } += 1;
                if !has_compiler {
                    continue;
                }
                let attempt =
                    if chain.is_product { lab.attempt(&live) } else { warpbook::lesson::attempt(&lab, &live) };
                let attempt = attempt.unwrap_or_else(|why| panic!("{lesson}, cell {place}: {why}"));
                // One edit demonstrates the compiler's message for a mistake.
                let is_mistake = live.id().ends_with("+typo");
                assert_eq!(attempt.compiles(), !is_mistake, "{lesson}, cell {place}: {}", attempt.text());
                // Cells with this comment start unchanged; solutions and demonstrations do not. A cell with a choice
                // between tiles starts with one of them, which is the rung's own on some GPUs.
                let is_start = cell == "code" && source.contains("// Your edit");
                let is_choice = cell == "code" && source.contains("// Your choice");
                assert!(is_choice || attempt.is_unchanged() == is_start, "{lesson}, cell {place}: {}", attempt.text());
                starts += usize::from(is_start);
            }
        }
    }
    assert!(edits >= 27 && solutions >= 24, "{edits} edits, {solutions} solutions");
    assert!(starts >= 12 || !has_compiler, "{starts} cells to edit");
}

#[test]
fn a_chain_is_read_with_its_strings_and_comments() {
    let found = chains(
        "let mine = LiveKernel::for_rung(\"a\")?.named(\"b\")\n    // An edit: (\"\n    .replacing(\"x\\n\\\"\", r#\"y\"z\"#)?.size(\"BN\", 8).shape(1, 2, f(3));",
    );
    let text = |t: &str| Argument::Text(t.into());
    let other = |t: &str| Argument::Other(t.into());
    let calls = [
        ("of", vec![text("a")]),
        ("named", vec![text("b")]),
        ("replacing", vec![text("x\n\""), text("y\"z")]),
        ("size", vec![text("BN"), Argument::Number(8)]),
        ("shape", vec![Argument::Number(1), Argument::Number(2), other("f(3)")]),
    ];
    let calls = calls.into_iter().map(|(name, arguments)| (name.to_owned(), arguments)).collect();
    assert_eq!(found, [Chain { is_product: true, calls }]);
}
