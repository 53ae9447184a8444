//! The record's format: what format 1 looks like, what is tolerated in it and what is refused.

mod common;

use common::{assert_same, expected, golden};
use warpbook_record::{
    DeviceKind, Dtype, L2State, MAX_BYTES, MemoryLevel, Problem, ReadError, Run, SpanGroup, TimedBy,
};

type Json = serde_json::Value;

fn read(text: &str) -> Result<Run, ReadError> {
    Run::from_json(text.as_bytes())
}

#[test]
fn the_golden_record_says_what_it_said() {
    let run = read(&golden()).unwrap();
    assert_same(&run, &expected());
}

#[test]
fn written_again_it_is_the_same_bytes() {
    assert_eq!(read(&golden()).unwrap().to_json().unwrap(), golden());
}

#[test]
fn nan_and_infinity_survive() {
    let run = read(&golden()).unwrap();
    let wild = &run.train_logs[1];
    assert!(wild.diverged() && wild.losses[1].loss == f64::INFINITY && wild.losses[2].loss.is_nan());
    assert_eq!(wild.parameters["b"], f64::NEG_INFINITY);
    assert!(wild.parameters["w"].is_nan() && wild.train_loss.is_nan());
    assert!(run.measurements[3].check.as_ref().unwrap().max_rel_error.is_nan());
    assert_eq!(run.measurements[3].samples_us, [f64::INFINITY]);
    assert_eq!(run.policy.budget_s, f64::INFINITY);
}

#[test]
fn figures_come_from_the_samples() {
    let run = read(&golden()).unwrap();
    let problem = run.measurements[1].problem.clone();
    assert_eq!(run.counts(), (2, 1, 1));
    assert_eq!(run.best(&problem).unwrap().rung, "04_fused_graph");
    assert_eq!(run.measurements[1].median_us(), Some(2310.4));
    assert_eq!(run.measurements[1].epoch_us(), Some(2310.4 / 200.0));
    // 32 MB of x and y stay in the cache of 60 MiB.
    assert_eq!(run.ceiling(&problem).unwrap().level, MemoryLevel::L2);
    assert!(!run.measurements[3].is_valid());
}

#[test]
fn a_byte_order_mark_is_skipped() {
    assert_same(&read(&format!("\u{feff}{}", golden())).unwrap(), &expected());
}

/// Puts a field that no version knows into every object that has fields of ours.
fn with_unknown_fields(value: &mut Json, name: &str) {
    match value {
        Json::Object(map) => {
            for (key, v) in map.iter_mut() {
                with_unknown_fields(v, key);
            }
            // Maps from names, and enums whose only key is the variant.
            if !["sources", "parameters", "runner", "requires", "schedule"].contains(&name) {
                map.insert("of_the_future".into(), serde_json::json!({ "deep": [1, "two", null] }));
            }
        }
        Json::Array(list) => list.iter_mut().for_each(|v| with_unknown_fields(v, name)),
        _ => {}
    }
}

#[test]
fn unknown_fields_are_ignored() {
    let mut json: Json = serde_json::from_str(&golden()).unwrap();
    with_unknown_fields(&mut json, "");
    let text = json.to_string();
    assert!(text.matches("of_the_future").count() > 50);
    assert_same(&read(&text).unwrap(), &expected());
}

#[test]
fn unknown_kinds_are_read_as_other() {
    let check = |pointer: &str, ask: &dyn Fn(&Run) -> bool| {
        let mut json: Json = serde_json::from_str(&golden()).unwrap();
        *json.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer}")) = "of_the_future".into();
        let run = read(&json.to_string()).unwrap_or_else(|e| panic!("{pointer}: {e}"));
        assert!(ask(&run), "{pointer}");
        // And it can be written.
        read(&run.to_json().unwrap()).unwrap();
    };
    check("/environment/device/kind", &|r| r.environment.device.kind == DeviceKind::Other);
    check("/policy/timed_by", &|r| r.policy.timed_by == TimedBy::Other);
    check("/policy/l2", &|r| r.policy.l2 == L2State::Other);
    check("/peaks/bandwidth/0/level", &|r| r.peaks.bandwidth[0].level == MemoryLevel::Other);
    check("/peaks/compute/0/dtype", &|r| r.peaks.compute[0].dtype == Dtype::Other);
    check("/spans/0/group", &|r| r.spans[0].group == SpanGroup::Other);
    check("/measurements/0/problem/kind", &|r| r.measurements[0].problem == Problem::Unknown);
    let dtype = |r: &Run| matches!(r.measurements[0].problem, Problem::Regression { dtype: Dtype::Other, .. });
    check("/measurements/0/problem/dtype", &dtype);
}

#[test]
fn fields_that_came_later_may_be_missing() {
    // What a first version of format 1 must have; everything else has a default.
    let text = r#"{ "schema": 1, "experiment": "regression",
        "environment": { "device": { "kind": "cpu", "index": 0, "name": "Xeon", "memory_bytes": 1, "multiprocessors": 2 },
            "cpu": "Xeon", "cpu_threads": 2, "os": "linux", "warpbook": "0.1.0", "debug_assertions": true },
        "policy": { "timed_by": "wall_clock", "l2": "warm", "warmup": 1, "samples": 5, "budget_s": 1,
            "batch_below_us": 50, "inputs": "Philox" } }"#;
    let run = read(text).unwrap();
    assert!(run.measurements.is_empty() && run.peaks.bandwidth.is_empty() && run.environment.clocks.is_none());
}

#[test]
fn a_record_cut_off_anywhere_is_refused() {
    let golden = golden();
    let bytes = golden.trim_end().as_bytes();
    for length in 0..bytes.len() {
        let error = Run::from_json(&bytes[..length]).expect_err("a prefix");
        let sentence = error.to_string();
        match error {
            ReadError::NotJson(_) => assert!(sentence.ends_with("It may have been cut off."), "{sentence}"),
            ReadError::NotUtf8 { at } => assert!(at < length && length - at < 4),
            other => panic!("{length}: {other:?}"),
        }
    }
    Run::from_json(bytes).unwrap();
}

/// The golden record with another value for "schema"; `None` takes it out.
fn with_schema(value: Option<Json>) -> String {
    let mut json: Json = serde_json::from_str(&golden()).unwrap();
    let object = json.as_object_mut().unwrap();
    match value {
        Some(v) => _ = object.insert("schema".into(), v),
        None => _ = object.remove("schema"),
    }
    json.to_string()
}

#[test]
fn other_files_are_refused_with_a_sentence() {
    let check = |bytes: &[u8], expect: &str| {
        let error = Run::from_json(bytes).expect_err(expect);
        assert_eq!(error.to_string(), expect);
    };
    let no_schema = "The file is JSON, but no Warpbook record: it has no number \"schema\".";
    check(with_schema(None).as_bytes(), no_schema);
    check(with_schema(Some("1".into())).as_bytes(), no_schema);
    check(with_schema(Some(Json::Null)).as_bytes(), no_schema);
    check(with_schema(Some((-1).into())).as_bytes(), no_schema);
    check(with_schema(Some(1.5.into())).as_bytes(), no_schema);
    check(b"{}", no_schema);
    check(
        with_schema(Some(2.into())).as_bytes(),
        "The record has format 2; this version of Warpbook reads formats up to 1. Update Warpbook to open it.",
    );
    check(
        with_schema(Some(0.into())).as_bytes(),
        "The record has format 0, which never existed; formats are counted from 1.",
    );
    // A later format is known as one whatever else it has.
    check(
        b"{\"schema\": 2, \"experiment\": 5}",
        "The record has format 2; this version of Warpbook reads formats up to 1. Update Warpbook to open it.",
    );
    let outermost = "The file is JSON, but no Warpbook record: its outermost value is not an object.";
    check(b"[]", outermost);
    check(format!("[{}]", golden()).as_bytes(), outermost);
    check(b"null", outermost);
    check(b"17", outermost);
    check(b"\x89PNG\r\n", "The file is not UTF-8 text (byte 0); a record is a JSON text file.");
    let mut broken = golden().into_bytes();
    broken[40] = 0xFF;
    check(&broken, "The file is not UTF-8 text (byte 40); a record is a JSON text file.");
    check(&vec![b' '; MAX_BYTES + 1], "The file has 65 MiB; a record has at most 64 MiB.");
}

#[test]
fn wrong_types_are_refused_with_their_line() {
    let check = |from: &str, to: &str| {
        let text = golden().replacen(from, to, 1);
        assert_ne!(text, golden(), "{from}");
        let sentence = read(&text).expect_err(to).to_string();
        assert!(sentence.starts_with("The file is JSON, but no Warpbook record: "), "{sentence}");
        assert!(sentence.contains(" at line "), "{sentence}");
    };
    check("\"index\": 0", "\"index\": -1");
    check("\"index\": 0", "\"index\": \"zero\"");
    check("\"rungs\": [", "\"rungs\": {}, \"unknown\": [");
    check("\"Infinity\"", "\"infinite\"");
    check("\"status\": \"skipped\"", "\"status\": \"of_the_future\"");
    check("\"experiment\": \"regression\"", "\"experiment\": null");
}

#[test]
fn deep_nesting_is_refused() {
    let depth = 100_000;
    let field = |open: &str, close: &str| {
        format!("{{\"schema\": 1, \"deep\": {}1{}}}", open.repeat(depth), close.repeat(depth))
    };
    let texts = ["[".repeat(depth), "{\"a\":".repeat(depth), field("[", "]"), field("{\"a\":", "}")];
    for text in texts {
        let error = read(&text).expect_err("too deep");
        assert!(error.to_string().contains("recursion limit exceeded"), "{error}");
    }
}
