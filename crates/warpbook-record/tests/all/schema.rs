//! The published JSON Schema, checked on records.

use crate::common::{file, golden, golden_v1};
use serde_json::Value;

fn validator() -> jsonschema::Validator {
    let schema: Value = serde_json::from_str(&warpbook_record::json_schema()).expect("the schema is JSON");
    jsonschema::meta::validate(&schema).expect("the schema is a schema");
    jsonschema::validator_for(&schema).expect("the schema can be used")
}

fn assert_valid(validator: &jsonschema::Validator, record: &str) {
    let record: Value = serde_json::from_str(record).expect("JSON");
    let errors: Vec<String> =
        validator.iter_errors(&record).map(|e| format!("{} at {}", e, e.instance_path())).collect();
    assert!(errors.is_empty(), "{errors:#?}");
}

#[test]
fn the_golden_record_is_valid() {
    assert_valid(&validator(), &golden());
}

/// Format 1's schema stays as published.
#[test]
fn each_format_has_a_schema() {
    let schema: Value = serde_json::from_str(&file("../../data/schema/run.v1.schema.json")).expect("JSON");
    let first = jsonschema::validator_for(&schema).expect("the schema can be used");
    assert_valid(&first, &golden_v1());
    let json = |text: String| serde_json::from_str::<Value>(&text).expect("JSON");
    assert!(!first.is_valid(&json(golden())));
    assert!(!validator().is_valid(&json(golden_v1())));
    let upgraded = warpbook_record::Run::from_json(golden_v1().as_bytes()).expect("a record");
    assert_valid(&validator(), &upgraded.to_json().expect("JSON"));
}

#[test]
fn a_peak_of_memory_is_a_count_or_absent() {
    let validator = validator();
    let with = |peak: Value| {
        let mut record: Value = serde_json::from_str(&golden()).expect("JSON");
        record["measurements"][1]["peak_bytes"] = peak;
        record
    };
    let record = with(393_216_000.into());
    assert!(validator.is_valid(&record));
    let run = warpbook_record::Run::from_json(record.to_string().as_bytes()).expect("a record");
    assert_eq!((run.measurements[0].peak_bytes, run.measurements[1].peak_bytes), (None, Some(393_216_000)));
    assert!(!validator.is_valid(&with(0.5.into())) && !validator.is_valid(&with((-1).into())));
}

/// Emulated rows are optional, since older records lack them.
#[test]
fn an_emulated_row_has_counts_and_no_time() {
    let validator = validator();
    let with = |emulated: Value| {
        let mut record: Value = serde_json::from_str(&golden()).expect("JSON");
        let row = &mut record["measurements"][1];
        row["outcome"] = serde_json::json!({ "status": "skipped", "why": warpbook_record::Emulated::NO_TIME });
        row["samples_us"] = serde_json::json!([]);
        row["emulated"] = emulated;
        record
    };
    let counts =
        serde_json::json!({ "file": "live/mine.cu", "line": 7, "requests": 2, "sectors": 64, "ideal_sectors": 8 });
    let clean = with(serde_json::json!({ "orders": ["forwards"], "lines": [counts] }));
    assert_valid(&validator, &clean.to_string());
    let run = warpbook_record::Run::from_json(clean.to_string().as_bytes()).expect("a record");
    let row = &run.measurements[1];
    let line = &row.emulated.as_ref().expect("it was emulated").lines[0];
    assert_eq!((line.line, line.sectors, line.wavefronts), (7, 64, 0));
    assert!(row.is_right_in_emulator() && !row.is_valid() && row.median_us().is_none());
    assert!(run.measurements[0].emulated.is_none() && !run.measurements[0].is_right_in_emulator());
    let finding = serde_json::json!({ "cause": "race", "message": "Two threads write one word.", "line": 7 });
    let found = with(serde_json::json!({ "finding": finding }));
    assert_valid(&validator, &found.to_string());
    let run = warpbook_record::Run::from_json(found.to_string().as_bytes()).expect("a record");
    assert!(!run.measurements[1].is_right_in_emulator());
    assert!(!validator.is_valid(&with(serde_json::json!({ "lines": [{ "sectors": -1 }] }))));
}

/// If `WARPBOOK_WRITE_SCHEMA` names a file, the schema is written to it.
#[test]
fn what_a_profiler_found_is_part_of_the_format() {
    if let Some(path) = std::env::var_os("WARPBOOK_WRITE_SCHEMA") {
        std::fs::write(path, warpbook_record::json_schema()).expect("a file that can be written");
    }
    let mut record: Value = serde_json::from_str(&golden()).expect("JSON");
    let id = record["problems"][2]["id"].clone();
    record["profiled"] = serde_json::json!([{
        "rung": "02_fused", "problem": id, "source": "CUPTI 130001", "memory": [{ "at_us": 0, "allocated_bytes": 7 }],
        "overhead": { "recorded_us": 3, "unrecorded_us": 2, "unrecorded_steps": 4 },
        "counters": [{ "kernel": "pass", "values": [{ "metric": "dram__bytes_read.sum", "value": "NaN" }] }]
    }]);
    record["spans"][0]["bytes"] = 7.into();
    assert_valid(&validator(), &record.to_string());
    record["profiled"][0]["memory"][0]["allocated_bytes"] = 0.5.into();
    assert!(!validator().is_valid(&record));
}

/// Courses are optional, since older records lack them; the record of a training has one.
#[test]
fn a_course_is_whole_or_absent() {
    let validator = validator();
    let course = serde_json::json!({
        "recipe": [["optimiser", "Adam"]],
        "data": "MNIST: the original files",
        "log_every": 1,
        "learning_rates": [{ "step": 1, "value": 0.05 }],
        "loss_scales": [{ "step": 1, "value": 65536.0 }, { "step": 3, "value": "Infinity" }],
        "skipped_steps": [2],
        "skipped_total": 1,
        "epochs": [{ "epoch": 1, "step": 4, "seconds": 0.5, "train_loss": 2.3, "test_loss": "NaN", "test": { "correct": 3, "of": 4 } }],
        "total_s": 0.75,
    });
    let with = |course: Value| {
        let mut record: Value = serde_json::from_str(&golden()).expect("JSON");
        record["train_logs"][0]["course"] = course;
        record
    };
    let record = with(course.clone());
    assert_valid(&validator, &record.to_string());
    let run = warpbook_record::Run::from_json(record.to_string().as_bytes()).expect("a record");
    let read = run.train_logs[0].course.as_ref().expect("it is there");
    assert_eq!((read.skipped_steps.as_slice(), read.total_s, read.peak_allocated_bytes), (&[2][..], 0.75, None));
    assert!(read.epochs[0].test_loss.is_nan() && read.loss_scales[1].value == f64::INFINITY);
    let right = read.epochs[0].test.expect("it is there");
    assert_eq!((right.accuracy(), warpbook_record::Right { correct: 0, of: 0 }.accuracy()), (Some(0.75), None));
    assert!(run.train_logs[1].course.is_none());
    // Writing the record again loses nothing.
    let again: Value = serde_json::from_str(&run.to_json().expect("JSON")).expect("JSON");
    assert_eq!(again["train_logs"][0]["course"]["loss_scales"], course["loss_scales"]);
    for (key, bad) in [("skipped_steps", 1.into()), ("log_every", (-1).into()), ("epochs", serde_json::json!([{}]))] {
        let mut course = course.clone();
        course[key] = bad;
        let record = with(course);
        assert!(!validator.is_valid(&record), "{key}");
        assert!(warpbook_record::Run::from_json(record.to_string().as_bytes()).is_err(), "{key}");
    }
}

#[test]
fn a_record_of_a_training_alone_has_a_main_problem() {
    let mut run = warpbook_record::Run::from_json(golden().as_bytes()).expect("a record");
    run.measurements.clear();
    run.parts.clear();
    run.spans.clear();
    run.breakdowns.clear();
    run.profiled.clear();
    run.xrays.clear();
    assert_eq!(run.main_problem().map(|p| &p.id), Some(&run.train_logs[0].problem.id));
    run.train_logs.clear();
    assert!(run.main_problem().is_none());
}

#[test]
fn what_the_reader_refuses_is_invalid() {
    let validator = validator();
    let check = |pointer: &str, value: Value| {
        let mut record: Value = serde_json::from_str(&golden()).expect("JSON");
        *record.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer}")) = value;
        assert!(!validator.is_valid(&record), "{pointer}");
        assert!(warpbook_record::Run::from_json(record.to_string().as_bytes()).is_err(), "{pointer}");
    };
    check("/schema", "one".into());
    check("/experiment", Value::Null);
    check("/environment/device/index", (-1).into());
    check("/measurements/0/samples_us/0", "infinite".into());
    check("/measurements/0/outcome/status", "of_the_future".into());
    check("/train_logs/0/losses/0/loss", Value::Null);
    check("/rungs", serde_json::json!({}));
    check("/descriptor/axis", Value::Null);
    check("/problems/0/id", 1.into());
    check("/problems/0/sizes/0/value", Value::Null);
    check("/problems/0/sweep/size", (-1).into());
    check("/measurements/0/problem", serde_json::json!({ "kind": "regression" }));
    check("/train_logs/0/losses/0/step", 0.5.into());
    check("/spans/0/duration_us", Value::Null);
    assert!(!validator.is_valid(&serde_json::json!([])));
    assert!(!validator.is_valid(&serde_json::json!({ "schema": 2 })));
}

#[test]
fn the_schema_ends_with_a_newline_and_says_its_dialect() {
    let text = warpbook_record::json_schema();
    assert!(text.ends_with("}\n"));
    assert!(text.contains("https://json-schema.org/draft/2020-12/schema"));
}
