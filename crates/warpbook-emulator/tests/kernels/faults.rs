//! Tests the kernels in `tests/faults/*.cu`. Each has a planted fault and a corrected version.
//!
//! The first lines of each file state the kind of fault and its line, a part of the message, and the launch: blocks x threads (+ bytes of dynamic shared
//! memory), followed by the arguments and their names. A buffer is `f32[64]` with small numbers, `zero u32[4]`, or `new f32[64]`, which is left unwritten. Any
//! other argument is a 32-bit number.

use crate::machine::{COMPILER, Machine};
use std::path::PathBuf;
use warpbook_emulator::{Argument, Cause, Fault, Launch, Module, Verdict};
use warpbook_record::{Grid, KernelSpec, Source, Tile};

pub struct Planted {
    pub name: String,
    source: String,
    pub cause: Cause,
    pub lines: Vec<u32>,
    says: String,
    launch: Launch,
    /// Name and description of each argument.
    arguments: Vec<(String, String)>,
}

impl Planted {
    fn read(path: &PathBuf) -> Self {
        let source = std::fs::read_to_string(path).unwrap();
        let head: Vec<&str> = source.lines().take(2).collect();
        let fault = head[0].strip_prefix("// Fault: ").unwrap();
        let (fault, says) = fault.split_once(". Says: ").unwrap();
        let (cause, lines) = fault.split_once(", in line ").unwrap();
        let launch = head[1].strip_prefix("// Launch: ").unwrap();
        let (shape, arguments) = launch.split_once(", with ").unwrap();
        let numbers: Vec<u32> = shape.split([' ', 'x', '+']).filter_map(|word| word.parse().ok()).collect();
        let dynamic = numbers.get(2).copied().unwrap_or(0);
        let argument = |text: &str| text.split_once(": ").map(|(name, kind)| (name.to_owned(), kind.to_owned()));
        Self {
            name: path.file_stem().unwrap().to_string_lossy().into(),
            cause: match cause {
                "out of bounds" => Cause::OutOfBounds,
                "misaligned" => Cause::Misaligned,
                "unwritten" => Cause::Unwritten,
                "race" => Cause::Race,
                "barrier" => Cause::Barrier,
                "endless" => Cause::Endless,
                other => panic!("{other}"),
            },
            lines: lines.split(" or ").map(|line| line.parse().unwrap()).collect(),
            says: says.to_owned(),
            launch: Launch { dynamic_shared: dynamic.into(), budget: 400_000, ..Launch::new(numbers[0], numbers[1]) },
            arguments: arguments.split("; ").map(|text| argument(text).unwrap()).collect(),
            source,
        }
    }

    pub fn verdict(&self, is_mended: bool) -> Result<Verdict, Fault> {
        let tile = Tile::new("t", &[("MENDED", is_mended.into())]);
        let mut spec =
            KernelSpec::new(Source { path: "planted.cu", text: "" }, "k", std::slice::from_ref(&tile), Grid::One);
        spec.source = self.source.clone().into();
        let text = COMPILER.compile_to_ptx(&spec, &tile, "compute_80").unwrap_or_else(|e| panic!("{}: {e}", self.name));
        let module = Module::parse(&text).unwrap_or_else(|e| panic!("{}: {e}", self.name));
        let mut machine = Machine::default();
        let names: Vec<&str> = self.arguments.iter().map(|(name, _)| name.as_str()).collect();
        let kernel = machine.gpu.load(&module).unwrap().kernel("k").unwrap_or_else(|e| panic!("{}: {e}", self.name));
        let arguments: Vec<Argument> = self.arguments.iter().map(|(_, kind)| argument(&mut machine, kind)).collect();
        machine.compiled(&self.name, &text);
        machine.note_job(&kernel, &self.launch, &arguments);
        machine.gpu.verdict(&kernel.with_argument_names(&names), &self.launch, &arguments)
    }
}

/// Creates an argument from its description, such as `zero u32[4]`.
fn argument(machine: &mut Machine, kind: &str) -> Argument {
    let Some((ty, length)) = kind.strip_suffix(']').and_then(|kind| kind.split_once('[')) else {
        return Argument::U32(kind.parse().unwrap());
    };
    let length: usize = length.parse().unwrap();
    let number = |i: usize| (i * 7 % 23) as f32 - 11.0;
    match ty {
        "new f32" => machine.room::<f32>(length),
        "new u32" => machine.room::<u32>(length),
        "zero u32" => machine.put(&vec![0u32; length]),
        "u32" => machine.put(&(0..length as u32).map(|i| i * 7 % 23).collect::<Vec<_>>()),
        "i32" => machine.put(&(0..length as u32).map(|i| (i % 23).wrapping_sub(3)).collect::<Vec<_>>()),
        "u8" => machine.put(&vec![7u8; length]),
        "u16" => machine.put(&vec![7u8; 2 * length]),
        "f32" => machine.put(&(0..length).map(number).collect::<Vec<_>>()),
        other => panic!("{other}"),
    }
}

pub fn planted() -> Vec<Planted> {
    let folder = warpbook_device::testing::manifest_dir(env!("CARGO_MANIFEST_DIR")).join("tests/faults");
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(Planted::read).collect()
}

#[test]
fn planted_faults_are_found_with_cause_and_line() {
    let all = planted();
    assert!(all.len() >= 40);
    let mut wrong = Vec::new();
    for planted in all {
        let told = match planted.verdict(false) {
            Ok(_) => "nothing is found".to_owned(),
            Err(fault) => {
                let text = fault.to_string();
                let line = fault.position.as_ref().map_or(0, |position| position.line);
                let is_right = fault.cause == planted.cause && planted.lines.contains(&line);
                if is_right && fault.thread.is_some() && text.contains(&planted.says) {
                    println!("{}: {text}", planted.name);
                    continue;
                }
                format!("{:?} in line {line}: {text}", fault.cause)
            }
        };
        let Planted { name, cause, lines, says, .. } = planted;
        wrong.push(format!("{name}: {cause:?} in {lines:?} ({says}), but {told}"));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn mended_kernels_are_clean() {
    let faults = planted().into_iter().filter_map(|planted| Some((planted.name.clone(), planted.verdict(true).err()?)));
    let wrong: Vec<String> = faults.map(|(name, fault)| format!("{name}: {:?}: {fault}", fault.cause)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_cause_has_kernels_of_several_kinds() {
    let all = planted();
    let causes = [Cause::OutOfBounds, Cause::Misaligned, Cause::Unwritten, Cause::Race, Cause::Barrier, Cause::Endless];
    for cause in causes {
        let kernels = all.iter().filter(|planted| planted.cause == cause).count();
        assert!(kernels >= 4, "{cause:?}: {kernels}");
    }
}

/// Returns true if a kernel was written after a report by someone who met the fault: an issue, a pull request or a question.
fn is_after_report(source: &str) -> bool {
    let reports = ["/issues/", "/pull/", "stackoverflow.com/questions/", "the Stack Overflow question"];
    source
        .lines()
        .filter(|line| line.starts_with("// After: "))
        .any(|line| reports.iter().any(|part| line.contains(part)))
}

#[test]
fn at_least_fifteen_faults_are_after_public_reports() {
    let reports = planted().iter().filter(|planted| is_after_report(&planted.source)).count();
    assert!(reports >= 15, "{reports}");
    assert!(!is_after_report("// Fault\n// After: NVIDIA Compute Sanitizer, memcheck_demo\n"));
}
