//! The published JSON Schema, held against records.
#![cfg(feature = "schema")]

mod common;

use common::golden;
use serde_json::Value;

fn validator() -> jsonschema::Validator {
    let schema: Value = serde_json::from_str(&warpbook_record::json_schema()).expect("the schema is JSON");
    jsonschema::meta::validate(&schema).expect("the schema is a schema");
    jsonschema::validator_for(&schema).expect("the schema can be used")
}

#[test]
fn the_golden_record_is_valid() {
    let record: Value = serde_json::from_str(&golden()).expect("JSON");
    let validator = validator();
    let errors: Vec<String> =
        validator.iter_errors(&record).map(|e| format!("{} at {}", e, e.instance_path())).collect();
    assert!(errors.is_empty(), "{errors:#?}");
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
    assert!(!validator.is_valid(&serde_json::json!([])));
    assert!(!validator.is_valid(&serde_json::json!({ "schema": 1 })));
}

#[test]
fn the_schema_ends_with_a_newline_and_says_its_dialect() {
    let text = warpbook_record::json_schema();
    assert!(text.ends_with("}\n"));
    assert!(text.contains("https://json-schema.org/draft/2020-12/schema"));
}
