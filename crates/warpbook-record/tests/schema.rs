//! The published JSON Schema, held against records.
#![cfg(feature = "schema")]

mod common;

use common::{file, golden, golden_v1};
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

/// The schema of format 1 stays as it was published.
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
