//! Tests that pages exported before 28 November 2026 open a record of today. The types have the fields that the reader
//! of commit 3e1e4c2 requires. A field is a text if that reader accepts unknown words in it.
#![allow(dead_code, reason = "nothing uses the fields after they are read")]

use crate::common::expected;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use warpbook_record::{
    Answer, Check, DeviceKind, Emulated, Finding, Gradients, Guessed, LineCounts, Measurement, Outcome, Run, TimedBy,
    WarpRequest,
};

/// Makes structs that are read from JSON.
macro_rules! objects {
    ($($name:ident { $($fields:tt)* })*) => { $(#[derive(Deserialize)] struct $name { $($fields)* })* };
}

/// Makes enums that are read from JSON and refuse unknown variants.
macro_rules! choices {
    ($($name:ident { $($variants:tt)* })*) => {
        $(#[derive(Deserialize)] #[serde(rename_all = "snake_case")] enum $name { $($variants)* })*
    };
}

objects! {
    OldRun { schema: u32, experiment: String, title: String, created: String, command: String, environment: OldMachine,
        policy: OldPolicy, peaks: OldPeaks, descriptor: OldDescriptor, problems: Vec<OldProblem>, rungs: Vec<OldRung>,
        sources: BTreeMap<String, String>, measurements: Vec<OldRow>, train_logs: Vec<OldLog>, parts: Vec<OldPart>,
        spans: Vec<OldSpan>, notes: Vec<String> }
    OldMachine { device: OldDevice, clocks: Option<OldClocks>, cpu: String, cpu_threads: u32, os: String,
        warpbook: String, debug_assertions: bool }
    OldDevice { kind: String, index: u32, name: String, memory_bytes: u64, multiprocessors: u32 }
    OldClocks { source: String, readings: u32 }
    OldPolicy { timed_by: String, l2: String, warmup: u32, samples: u32, budget_s: OldReal, batch_below_us: OldReal,
        inputs: String }
    OldPeaks { bandwidth: Vec<OldBandwidth>, compute: Vec<OldCompute> }
    OldBandwidth { level: String, access: Option<OldAccess>, method: String, bytes: u64, samples_us: Vec<OldReal> }
    OldCompute { dtype: String, method: String, flops: u64, samples_us: Vec<OldReal> }
    OldDescriptor { headline: String, quantities: Vec<String>, baseline: OldBaseline, columns: Vec<String>,
        charts: Vec<String>, levels: Vec<String> }
    OldProblem { id: String, label: String, short: String, sizes: Vec<OldSize>, dtype: String, sweep: Option<OldSweep> }
    OldSize { name: String, value: Value }
    OldSweep { size: u64, line: String }
    OldRung { id: String, title: String, idea: String, requires: OldRequires, runner: OldRunner }
    OldKernel { file: String, entry: String, defines: Vec<OldDefine>, tiles: Vec<OldTile>, grid: OldGrid,
        requires: Option<OldRequires> }
    OldTile { id: String, defines: Vec<OldDefine> }
    OldDefine { name: String, value: i64 }
    OldRow { rung: String, problem: String, tile: Option<String>, outcome: OldOutcome, samples_us: Vec<OldReal>,
        samples_total: u64, wall_us: Vec<OldReal>, check: Option<OldCheck>, kernels: Vec<OldStats> }
    OldOutcome { status: OldStatus, why: Option<String>, error: Option<String> }
    OldCheck { reference: String, max_abs_error: OldReal, max_rel_error: OldReal, tolerance: OldReal, passed: bool }
    OldStats { file: String, entry: String, architecture: String, registers: u32, static_shared_bytes: u32,
        spill_store_bytes: u32, spill_load_bytes: u32 }
    OldLog { rung: String, problem: String, train_loss: OldReal, test_loss: OldReal }
    OldPart { rung: String, problem: String, group: String, name: String, samples_us: Vec<OldReal> }
    OldSpan { problem: String, name: String, stream: String, start_us: OldReal, duration_us: OldReal }
}

choices! {
    OldAccess { Read, Copy }
    OldBaseline { FastestLibrary, Rung(String), #[serde(other)] FirstValid }
    OldRequires { Nothing, AtLeast(u32, u32), Exactly(String) }
    OldRunner { Kernels { specs: Vec<OldKernel>, schedule: OldSchedule }, Library(String), Cpu(String),
        External(String), Chosen(String) }
    OldSchedule { Launches, Streams(u32), Graph, OverlappedGraph, Cooperative, Clusters }
    OldGrid { One, Cover, Resident, Tiles, ResidentTiles }
    OldStatus { Measured, Skipped, Failed }
    OldReal { #[serde(rename = "NaN")] Nan, #[serde(rename = "Infinity")] Above, #[serde(rename = "-Infinity")] Below,
        #[serde(untagged)] Number(f64) }
}

/// Returns a record with every field of the golden record, with newer fields, and with rows of the emulator.
fn today() -> Run {
    let mut run = expected();
    (run.environment.device.kind, run.policy.timed_by) = (DeviceKind::Emulator, TimedBy::Nothing);
    let (problem, error) = (run.problems[0].clone(), "The emulator stopped the kernel.".to_owned());
    let (lines, requests) = (vec![LineCounts::default()], vec![WarpRequest::default()]);
    let found = Emulated { lines, requests, ..Emulated::default() };
    let stopped = Emulated { finding: Some(Finding::default()), ..found.clone() };
    let check = Check::compare("f64 on the CPU", &[(1.0, 1.0)], 1.0, 1e-3);
    run.measurements.push(Measurement::emulated("02_fused", problem.clone(), check, found));
    run.measurements.push(Measurement {
        chosen: Some("02_fused".into()),
        gradients: Some(Gradients { bytes: 4, buckets: 1 }),
        steps: Some(3),
        emulated: Some(Box::new(stopped)),
        ..Measurement::without_samples("02_fused", problem, Outcome::Failed { error })
    });
    run.descriptor.reason = "A pass reads the points once.".into();
    let (lesson, guess) = (String::new(), Answer::Number(2.0));
    run.guesses.push(Guessed { lesson, what: "How fast is it?".into(), guess, measured: None });
    run
}

#[test]
fn an_older_page_opens_a_record_of_today() {
    let text = today().to_json().unwrap();
    let read = serde_path_to_error::deserialize(&mut serde_json::Deserializer::from_str(&text));
    let run: OldRun = read.unwrap_or_else(|why| panic!("{why}"));
    assert!(run.schema == 2 && run.policy.inputs.starts_with("x evenly spaced"), "{}", run.policy.inputs);
    assert_eq!(run.measurements.len(), today().measurements.len());
}

#[test]
fn an_older_page_refuses_other_values() {
    let check = |pointer: &str, value: Value, expect: &str| {
        let mut record: Value = serde_json::from_str(&today().to_json().unwrap()).unwrap();
        *record.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer}")) = value;
        let why = serde_json::from_value::<OldRun>(record).err().map(|why| why.to_string()).unwrap_or_default();
        assert!(why.contains(expect), "{pointer}: {why}");
    };
    // Records of 28 and 29 November had a list.
    check("/policy/inputs", json!([{ "data": "Philox" }]), "expected a string");
    check("/measurements/0/outcome/status", "emulated".into(), "unknown variant `emulated`");
    check("/rungs/0/requires", "an_emulator".into(), "unknown variant `an_emulator`");
    check("/environment/device/index", Value::Null, "expected u32");
}
