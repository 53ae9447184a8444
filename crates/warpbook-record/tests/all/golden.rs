//! Tests of the record formats: the written text, the tolerance for unknown values, and the errors.

use crate::common::{assert_same, expected, expected_of_v1, file, golden, golden_v1};
use warpbook_record::{
    Baseline, ChartKind, Column, DeviceKind, Dtype, L2State, LinkTransfer, MAX_BYTES, MemoryLevel, PartGroup, Quantity,
    ReadError, Run, Rung, Schedule, SizeValue, TimedBy, stats,
};

type Json = serde_json::Value;

fn read(text: &str) -> Result<Run, ReadError> {
    Run::from_json(text.as_bytes())
}

fn json(text: &str) -> Json {
    serde_json::from_str(text).expect("JSON")
}

/// Returns both golden records, each with its expected contents.
fn both() -> [(String, Run); 2] {
    [(golden(), expected()), (golden_v1(), expected_of_v1())]
}

#[test]
fn the_golden_records_say_what_they_said() {
    for (text, expected) in both() {
        assert_same(&read(&text).unwrap(), &expected);
    }
}

#[test]
fn written_again_it_is_the_same_bytes() {
    assert_eq!(read(&golden()).unwrap().to_json().unwrap(), golden());
}

/// Older records of format 2 have either a sentence on their inputs or a list of them, and not both.
#[test]
fn older_inputs_are_written_as_a_sentence_and_a_list() {
    let sentence = "    \"inputs\": \"x evenly spaced and permuted, y with Gaussian noise by Philox\"";
    let list = "[\n      {\n        \"data\": \"x evenly spaced and permuted, y with Gaussian noise by Philox\"\n      }\n    ]";
    let both = format!("{sentence},\n    \"inputs_by_work\": {list}");
    for older in [sentence, &format!("    \"inputs\": {list}")] {
        let older = golden().replace(&both, older);
        assert_ne!(older, golden());
        assert!(read(&older).unwrap().to_json().unwrap() == golden());
    }
}

#[test]
fn an_upgraded_record_is_written_in_the_current_format() {
    let text = read(&golden_v1()).unwrap().to_json().unwrap();
    assert!(text.starts_with("{\n  \"schema\": 2,"), "{}", &text[..40]);
    assert_same(&read(&text).unwrap(), &expected_of_v1());
}

/// The upgrade of format 1 does not change records of format 2.
#[test]
fn a_record_of_the_current_format_is_not_upgraded() {
    let mut run = expected();
    run.experiment = "matmul".into();
    run.main_problem = None;
    run.rungs[5].variant_of = None;
    assert!(run.rungs[5].id.contains('+'));
    assert_same(&read(&run.to_json().unwrap()).unwrap(), &run);
}

#[test]
fn nan_and_infinity_survive() {
    let survive = |run: &Run, failed: usize| {
        let wild = &run.train_logs[1];
        assert!(wild.diverged() && wild.losses[1].loss == f64::INFINITY && wild.losses[2].loss.is_nan());
        assert_eq!(wild.parameters["b"], f64::NEG_INFINITY);
        assert!(wild.parameters["w"].is_nan() && wild.train_loss.is_nan());
        assert!(run.measurements[failed].check.as_ref().unwrap().max_rel_error.is_nan());
        assert_eq!(run.measurements[failed].samples_us, [f64::INFINITY]);
        assert_eq!(run.policy.budget_s, f64::INFINITY);
    };
    let run = read(&golden()).unwrap();
    survive(&run, 4);
    survive(&read(&golden_v1()).unwrap(), 3);
    let wild = &run.train_logs[1].problem;
    assert_eq!(wild.real("learning_rate"), Some(f64::INFINITY));
    assert!(wild.real("noise").is_some_and(f64::is_nan));
}

/// Words for numbers that JSON lacks, such as "NaN", are read as numbers.
#[test]
fn a_size_is_a_count_a_real_number_or_a_word() {
    let check = |value: Json, expect: &dyn Fn(&SizeValue) -> bool| {
        let mut record = json(&golden());
        record["problems"][0]["sizes"][0]["value"] = value.clone();
        let run = read(&record.to_string()).unwrap_or_else(|e| panic!("{value}: {e}"));
        assert!(expect(&run.problems[0].sizes[0].value), "{value}: {:?}", run.problems[0].sizes[0]);
    };
    check(7.into(), &|v| *v == SizeValue::Count(7));
    check(u64::MAX.into(), &|v| *v == SizeValue::Count(u64::MAX));
    check(7.0.into(), &|v| *v == 7.0.into());
    check((-7).into(), &|v| *v == (-7.0).into());
    check("seven".into(), &|v| *v == "seven".into());
    check("infinite".into(), &|v| *v == "infinite".into());
    check("-Infinity".into(), &|v| *v == f64::NEG_INFINITY.into());
    check("NaN".into(), &|v| matches!(v, SizeValue::Real(r) if r.0.is_nan()));
}

#[test]
fn figures_come_from_the_samples() {
    for (text, counts) in [(golden(), (3, 1, 1)), (golden_v1(), (2, 1, 1))] {
        let run = read(&text).unwrap();
        let problem = run.measurements[1].problem.clone();
        assert_eq!(run.counts(), counts);
        assert_eq!(run.fastest(&problem).unwrap().rung, "04_fused_graph");
        assert_eq!(run.measurements[1].median_us(), Some(2310.4));
        assert_eq!(run.measurements[1].pass_us(), Some(2310.4 / 200.0));
        // 32 MB of x and y stay in the L2 of 60 MiB.
        assert_eq!(run.ceiling(&problem).unwrap().level, MemoryLevel::L2);
        assert!(!run.measurements.last().unwrap().is_valid());
    }
    let run = read(&golden()).unwrap();
    assert_eq!(run.main_problem().unwrap().short, "4096³");
    assert_eq!(run.measurements[1].items_per_s(), Some(800e6 / (2310.4 * 1e-6)));
    assert_eq!((run.spans[1].end_us(), run.spans[2].end_us()), (1.75, 0.5));
}

/// Compares the value of `list[i]["problem"]` in a record with the parsed problem.
fn assert_same_problem(value: &Json, problem: &warpbook_record::Problem) {
    match value {
        Json::String(id) => assert_eq!(*id, problem.id),
        Json::Object(sizes) => {
            let dtype: Dtype = serde_json::from_value(sizes["dtype"].clone()).expect("a type");
            assert_eq!(problem.dtype, dtype);
            for (name, size) in sizes.iter().filter(|(_, v)| v.is_number()) {
                assert_eq!(problem.real(name), size.as_f64(), "{name} of {}", problem.id);
            }
            assert!(problem.flops > 0 && problem.bytes > 0 && problem.working_set_bytes > 0);
        }
        other => panic!("no problem: {other}"),
    }
}

#[test]
fn published_records_open_and_keep_their_figures() {
    let index = json(&file("../../data/results/index.json"));
    let records = index["records"].as_array().expect("a list");
    assert!(records.len() >= 2);
    for record in records {
        let name = record["file"].as_str().expect("a name");
        let text = file(&format!("../../data/results/{name}"));
        let run = read(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
        let raw = json(&text);
        let list = |name: &str| raw.get(name).and_then(Json::as_array).cloned().unwrap_or_default();
        let samples = |of: &Json| -> Vec<f64> { serde_json::from_value(of["samples_us"].clone()).expect("numbers") };

        assert_eq!(run.measurements.len(), list("measurements").len());
        for (m, raw) in run.measurements.iter().zip(list("measurements")) {
            assert_eq!(m.median_us(), stats::median(&samples(&raw)), "{name}: {} at {}", m.rung, m.problem.id);
            assert_same_problem(&raw["problem"], &m.problem);
        }
        assert_eq!(run.train_logs.len(), list("train_logs").len());
        for (log, raw) in run.train_logs.iter().zip(list("train_logs")) {
            assert_same_problem(&raw["problem"], &log.problem);
        }
        let parts = if raw["schema"] == 1 { list("spans") } else { list("parts") };
        assert_eq!(run.parts.len(), parts.len());
        for (part, raw) in run.parts.iter().zip(parts) {
            assert_eq!(part.median_us(), stats::median(&samples(&raw)), "{name}: {}", part.name);
            assert_same_problem(&raw["problem"], &part.problem);
        }

        assert!(run.problems().iter().all(|p| run.problems.contains(p)));
        let main = run.main_problem().expect("a problem");
        assert_eq!(run.main_problem.as_ref(), Some(&main.id), "{name}");
        // Training steps on several ranks, speed-runs and logged trainings are compared with one another and have no ceilings.
        let has_ceilings = !run.peaks.bandwidth.is_empty();
        // Copies by the driver have no ceilings either, since they cross the link to the host.
        let is_copied = run.rungs.iter().any(Rung::is_driver) && run.rungs.iter().all(|r| r.is_driver() || r.is_cpu());
        assert_eq!(run.least_time(main).is_some(), has_ceilings && !is_copied, "{name}");
        assert!(has_ceilings || ["scaling", "time-to-accuracy", "train"].contains(&&*run.experiment), "{name}");
        // A logged training has a course and no measurement.
        assert_eq!(run.baseline(main).is_some(), run.experiment != "train", "{name}");
        assert_same(&read(&run.to_json().unwrap()).unwrap(), &run);
    }
}

#[test]
fn a_byte_order_mark_is_skipped() {
    assert_same(&read(&format!("\u{feff}{}", golden())).unwrap(), &expected());
}

/// Adds a field that no version knows to every object that has the format's fields.
fn with_unknown_fields(value: &mut Json, name: &str) {
    match value {
        Json::Object(map) => {
            for (key, v) in map.iter_mut() {
                with_unknown_fields(v, key);
            }
            // Maps from names, and enums whose only key is the variant, are left unchanged.
            if !["sources", "parameters", "runner", "requires", "schedule", "baseline"].contains(&name) {
                map.insert("of_the_future".into(), serde_json::json!({ "deep": [1, "two", null] }));
            }
        }
        Json::Array(list) => list.iter_mut().for_each(|v| with_unknown_fields(v, name)),
        _ => {}
    }
}

#[test]
fn unknown_fields_are_ignored() {
    for (text, expected) in both() {
        let mut record = json(&text);
        with_unknown_fields(&mut record, "");
        let text = record.to_string();
        assert!(text.matches("of_the_future").count() > 50);
        assert_same(&read(&text).unwrap(), &expected);
    }
}

/// Returns the record with "of_the_future" in place of a value.
fn of_the_future(record: &str, pointer: &str) -> Run {
    let mut record = json(record);
    *record.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer}")) = "of_the_future".into();
    let run = read(&record.to_string()).unwrap_or_else(|e| panic!("{pointer}: {e}"));
    // A record with unknown values can be written again.
    assert_same(&read(&run.to_json().unwrap()).unwrap(), &run);
    run
}

#[test]
fn unknown_kinds_are_read_as_other() {
    let check = |pointer: &str, ask: &dyn Fn(&Run) -> bool| {
        assert!(ask(&of_the_future(&golden(), pointer)), "{pointer}");
    };
    check("/environment/device/kind", &|r| r.environment.device.kind == DeviceKind::Other);
    check("/policy/timed_by", &|r| r.policy.timed_by == TimedBy::Other);
    check("/policy/l2", &|r| r.policy.l2 == L2State::Other);
    check("/peaks/bandwidth/0/level", &|r| r.peaks.bandwidth[0].level == MemoryLevel::Other);
    check("/peaks/compute/0/dtype", &|r| r.peaks.compute[0].dtype == Dtype::Other);
    check("/descriptor/headline", &|r| r.descriptor.headline == Quantity::Time);
    check("/descriptor/quantities/0", &|r| r.descriptor.quantities[0] == Quantity::Time);
    check("/descriptor/baseline", &|r| r.descriptor.baseline == Baseline::FirstValid);
    check("/descriptor/columns/0", &|r| r.descriptor.columns[0] == Column::Other);
    check("/descriptor/charts/8", &|r| r.descriptor.charts[8] == ChartKind::Other);
    check("/descriptor/levels/3", &|r| r.descriptor.levels[3] == MemoryLevel::Other);
    check("/problems/0/dtype", &|r| r.measurements[0].problem.dtype == Dtype::Other);
    check("/measurements/1/traffic/0/level", &|r| r.measurements[1].traffic[0].level == MemoryLevel::Other);
    check("/parts/0/group", &|r| r.parts[0].group == PartGroup::Other);
}

#[test]
fn unknown_kinds_of_format_1_are_read_as_other() {
    let check = |pointer: &str, ask: &dyn Fn(&Run) -> bool| {
        assert!(ask(&of_the_future(&golden_v1(), pointer)), "{pointer}");
    };
    check("/environment/device/kind", &|r| r.environment.device.kind == DeviceKind::Other);
    check("/spans/0/group", &|r| r.parts[0].group == PartGroup::Other);
    check("/measurements/0/problem/dtype", &|r| r.measurements[0].problem.dtype == Dtype::Other);
    let unknown = |r: &Run| {
        let p = &r.measurements[0].problem;
        (p.text("kind"), p.label.as_str(), p.flops) == (Some("of_the_future"), "unknown work", 0)
    };
    check("/measurements/0/problem/kind", &unknown);
}

/// Returns a record with only the fields that the format's first version required; all others have defaults.
fn first_version(schema: u32, more: &str) -> String {
    format!(
        r#"{{ "schema": {schema}, "experiment": "regression",
        "environment": {{ "device": {{ "kind": "cpu", "index": 0, "name": "Xeon", "memory_bytes": 1, "multiprocessors": 2 }},
            "cpu": "Xeon", "cpu_threads": 2, "os": "linux", "warpbook": "0.1.0", "debug_assertions": true }},
        "policy": {{ "timed_by": "wall_clock", "l2": "warm", "warmup": 1, "samples": 5, "budget_s": 1,
            "batch_below_us": 50, "inputs": "Philox" }} {more} }}"#
    )
}

#[test]
fn fields_that_came_later_may_be_missing() {
    for schema in [1, 2] {
        let run = read(&first_version(schema, "")).unwrap();
        assert!(run.measurements.is_empty() && run.peaks.bandwidth.is_empty() && run.environment.clocks.is_none());
        assert!(run.problems.is_empty() && run.author.is_none() && run.main_problem().is_none());
    }
    let entries = r#", "descriptor": {},
        "problems": [{ "id": "p", "label": "points", "short": "5", "dtype": "f32" }],
        "measurements": [{ "rung": "a", "problem": "p", "outcome": { "status": "measured" } }],
        "train_logs": [{ "rung": "a", "problem": "p", "train_loss": 1, "test_loss": 2 }],
        "parts": [{ "rung": "a", "problem": "p", "group": "tile", "name": "t", "samples_us": [] }],
        "spans": [{ "problem": "p", "name": "pass", "stream": "0", "start_us": 0, "duration_us": 1 }]"#;
    let run = read(&first_version(2, entries)).unwrap();
    let problem = &run.measurements[0].problem;
    assert_eq!((problem.passes, problem.items, problem.size()), (1, None, 0));
    assert!(run.descriptor.columns.is_empty() && run.descriptor.baseline == Baseline::FirstValid);
    assert_eq!((run.train_logs[0].losses.len(), run.spans[0].rung.as_str()), (0, ""));
}

/// Older records of this format have no breakdowns, and an empty list is not written.
#[test]
fn a_breakdown_is_read_and_its_problem_found() {
    assert!(read(&golden()).unwrap().breakdowns.is_empty() && !golden().contains("breakdowns"));
    let mut record = json(&golden());
    let id = record["problems"][2]["id"].clone();
    record["breakdowns"] = serde_json::json!([{
        "rung": "02_fused", "problem": id, "source": "CUPTI 130001", "whole_us": [12.5, 12.75], "busy_us": [11, 11.5],
        "operations": [{ "name": "conv1 forward", "kernels": ["conv"], "launches": 1, "samples_us": [3.5, "NaN"] }]
    }]);
    record["spans"][0]["operation"] = "conv1 forward".into();
    let run = read(&record.to_string()).unwrap();
    let b = &run.breakdowns[0];
    assert_eq!((&b.problem, b.between_us.len(), b.operations[0].bytes), (&run.problems[2], 0, 0));
    assert_eq!((b.idle_median_us(), run.spans[0].operation.as_str()), (Some(1.375), "conv1 forward"));
    assert!(run.breakdown("02_fused", &run.problems[2]).is_some() && run.breakdown("01", &run.problems[2]).is_none());
    assert_same(&read(&run.to_json().unwrap()).unwrap(), &run);
    record["breakdowns"][0]["problem"] = "m=7".into();
    let error = read(&record.to_string()).expect_err("not listed").to_string();
    assert!(error.contains("breakdowns[0] has the problem `m=7`"), "{error}");
}

/// Older records of this format have no profiles, and an empty list is not written.
#[test]
fn what_a_profiler_found_is_read_and_its_problem_found() {
    assert!(read(&golden()).unwrap().profiled.is_empty() && !golden().contains("profiled"));
    assert!(!golden().contains("correlation"), "a span without one has no field for it");
    let mut record = json(&golden());
    let id = record["problems"][2]["id"].clone();
    record["profiled"] = serde_json::json!([{
        "rung": "02_fused", "problem": id, "source": "CUPTI 130001",
        "memory": [{ "at_us": 0, "allocated_bytes": 7 }],
        "overhead": { "recorded_us": 3, "unrecorded_us": 2, "unrecorded_steps": 4 },
        "counters": [{ "kernel": "pass", "values": [{ "metric": "dram__bytes_read.sum", "value": 4096 }] }]
    }]);
    record["spans"][0]["bytes"] = 3000.into();
    let run = read(&record.to_string()).unwrap();
    let p = run.profiled_of("02_fused", &run.problems[2]).unwrap();
    assert_eq!((p.memory[0].allocated_bytes, p.memory[0].pool_reserved_bytes), (7, 0));
    assert_eq!((p.overhead.unwrap().ratio(), p.counters[0].value("dram__bytes_read.sum")), (Some(1.5), Some(4096.0)));
    assert_eq!((run.spans[0].bytes_per_s(), run.spans[1].bytes), (Some(2e9), None), "3000 bytes in 1.5 us");
    assert_same(&read(&run.to_json().unwrap()).unwrap(), &run);
    record["profiled"][0]["problem"] = "m=7".into();
    let error = read(&record.to_string()).expect_err("not listed").to_string();
    assert!(error.contains("profiled[0] has the problem `m=7`"), "{error}");
}

#[test]
fn a_problem_that_is_not_listed_is_refused() {
    let check = |list: &str, i: usize| {
        let mut record = json(&golden());
        record[list][i]["problem"] = "m=7".into();
        let expect = format!(
            "The file is JSON, but no Warpbook record: {list}[{i}] has the problem `m=7`, which \"problems\" does not list."
        );
        assert_eq!(read(&record.to_string()).expect_err(list).to_string(), expect);
    };
    check("measurements", 3);
    check("train_logs", 1);
    check("parts", 2);
    check("spans", 0);
}

#[test]
fn an_id_that_is_listed_twice_is_refused() {
    let mut record = json(&golden());
    record["problems"][3]["id"] = record["problems"][2]["id"].clone();
    let expect = "The file is JSON, but no Warpbook record: \"problems\" lists the id `mnist/512` more than once.";
    assert_eq!(read(&record.to_string()).expect_err("twice").to_string(), expect);
}

#[test]
fn problems_that_the_list_lacks_are_written_once() {
    let mut run = expected();
    let all = std::mem::take(&mut run.problems);
    // The problem is listed twice, and nothing uses it.
    let spare = all[0].with(|p| p.id = "spare".into());
    run.problems = vec![spare.clone(), all[2].clone(), spare.clone()];
    let again = read(&run.to_json().unwrap()).unwrap();
    let ids = |list: &[warpbook_record::Problem]| -> Vec<String> { list.iter().map(|p| p.id.clone()).collect() };
    // Problems of the list come first; the other problems follow in the order of the measurements.
    assert_eq!(ids(&again.problems), ids(&[spare, all[2].clone(), all[0].clone(), all[1].clone(), all[3].clone()]));
    assert_same(&Run { problems: all.clone(), ..again }, &expected());
    assert_eq!(run.problems.len(), 3, "the record itself stays as it was");

    // Problems that only a training, a part or a span has count, too.
    let only = |i: u32| all[0].with(|p| p.id = i.to_string());
    let mut run = expected();
    run.train_logs[0].problem = only(1);
    run.parts[0].problem = only(2);
    run.spans[0].problem = only(3);
    let again = read(&run.to_json().unwrap()).unwrap();
    assert_eq!(ids(&again.problems[4..]), ["1", "2", "3"]);
}

/// Writes values that format 1 does not allow; they must be refused.
#[test]
fn what_format_1_did_not_have_is_refused() {
    let check = |pointer: &str, value: Json, expect: &str| {
        let mut record = json(&golden_v1());
        *record.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer}")) = value;
        let sentence = read(&record.to_string()).expect_err(pointer).to_string();
        assert_eq!(sentence, format!("The file is JSON, but no Warpbook record: {expect}."));
    };
    let problem = |list: &str, why: &str| format!("the problem of {list} is not one of format 1: {why}");
    check(
        "/measurements/1/problem/points",
        (-1).into(),
        &problem("measurements[1]", "invalid value: integer `-1`, expected u64"),
    );
    check("/train_logs/0/problem", serde_json::json!({}), &problem("train_logs[0]", "missing field `kind`"));
    check(
        "/spans/3/problem",
        serde_json::json!({ "kind": "matmul", "m": 1 }),
        &problem("spans[3]", "missing field `n`"),
    );
    check("/measurements/0", serde_json::json!({ "rung": "cublas" }), "missing field `problem`");
    check("/environment/device/index", (-1).into(), "invalid value: integer `-1`, expected u32");
    check("/experiment", Json::Null, "invalid type: null, expected a string");
}

#[test]
fn products_of_format_1_are_upgraded() {
    let mut record = json(&golden_v1());
    record["experiment"] = "matmul".into();
    let product = |n: u32, dtype: &str| serde_json::json!({ "kind": "matmul", "m": n, "n": n, "k": n, "dtype": dtype, "seed": 1 });
    for (i, problem) in [product(4096, "f32"), product(4096, "bf16"), product(8192, "bf16")].into_iter().enumerate() {
        record["measurements"][i]["problem"] = problem;
    }
    record["rungs"][5]["id"] = "13_cluster+mine".into();
    let run = read(&record.to_string()).unwrap();
    assert_eq!(run.main_problem.as_deref(), Some("m=4096 n=4096 k=4096 seed=1 bf16"));
    let rung = run.rung("13_cluster+mine").unwrap();
    assert_eq!((rung.variant_of.as_deref(), rung.schedule()), (Some("13_cluster"), Some(Schedule::Clusters)));
    assert!(run.rungs.iter().filter(|r| r.variant_of.is_some()).count() == 1);
    assert_eq!((run.descriptor.headline, &run.descriptor.baseline), (Quantity::Throughput, &Baseline::FastestLibrary));
    assert!(run.descriptor.has(ChartKind::HeatMap) && !run.descriptor.has(ChartKind::Loss));
}

#[test]
fn a_record_cut_off_anywhere_is_refused() {
    let golden = golden();
    let bytes = golden.trim_end().as_bytes();
    for length in 0..bytes.len() {
        let error = Run::from_json(&bytes[..length]).expect_err("a prefix");
        let sentence = error.to_string();
        match error {
            ReadError::Empty => assert_eq!(length, 0),
            ReadError::NotJson(_) => assert!(sentence.ends_with(": it may have been cut off."), "{sentence}"),
            ReadError::NotUtf8 { at } => assert!(at < length && length - at < 4),
            other => panic!("{length}: {other:?}"),
        }
    }
    Run::from_json(bytes).unwrap();
}

/// Returns the golden record with another value for "schema"; `None` removes it.
fn with_schema(value: Option<Json>) -> String {
    let mut record = json(&golden());
    let object = record.as_object_mut().unwrap();
    match value {
        Some(v) => _ = object.insert("schema".into(), v),
        None => _ = object.remove("schema"),
    }
    record.to_string()
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
        with_schema(Some(3.into())).as_bytes(),
        "The record has format 3; this version of Warpbook reads formats up to 2. Update Warpbook to open it.",
    );
    check(
        with_schema(Some(0.into())).as_bytes(),
        "The record has format 0, which never existed; formats are counted from 1.",
    );
    // A later format is recognised, whatever else the record contains.
    check(
        b"{\"schema\": 3, \"experiment\": 5}",
        "The record has format 3; this version of Warpbook reads formats up to 2. Update Warpbook to open it.",
    );
    let outermost = "The file is JSON, but no Warpbook record: its outermost value is not an object.";
    check(b"[]", outermost);
    check(format!("[{}]", golden()).as_bytes(), outermost);
    check(b"null", outermost);
    check(b"17", outermost);
    check(b" \n", "The file is empty.");
    check(b"PK\x03\x04\x14", "The file is a zip archive: unpack it, and open the record inside.");
    check(b"\x1f\x8b\x08", "The file is packed by gzip: unpack it, and open the record inside.");
    check(b"\x89PNG\r\n", "The file is not UTF-8 text (byte 0); a record is a JSON text file.");
    let mut broken = golden().into_bytes();
    broken[40] = 0xFF;
    check(&broken, "The file is not UTF-8 text (byte 40); a record is a JSON text file.");
    check(&vec![b' '; MAX_BYTES + 1], "The file has 65 MiB; a record has at most 64 MiB.");
}

#[test]
fn wrong_types_are_refused_with_their_path() {
    let check = |from: &str, to: &str, path: &str| {
        let text = golden().replacen(from, to, 1);
        assert_ne!(text, golden(), "{from}");
        let sentence = read(&text).expect_err(to).to_string();
        assert!(sentence.starts_with("The file is JSON, but no Warpbook record: "), "{sentence}");
        assert!(sentence.ends_with(&format!(", at `{path}`.")), "{sentence}");
    };
    check("\"index\": 0", "\"index\": -1", "environment.device.index");
    check("\"index\": 0", "\"index\": \"zero\"", "environment.device.index");
    check("\"rungs\": [", "\"rungs\": {}, \"unknown\": [", "rungs");
    check("\"Infinity\"", "\"infinite\"", "policy.budget_s");
    check("\"status\": \"skipped\"", "\"status\": \"of_the_future\"", "measurements[3].outcome.status");
    check("\"experiment\": \"everything\"", "\"experiment\": null", "experiment");
    check("\"value\": 200", "\"value\": null", "problems[0].sizes[1].value");
    check("\"passes\": 200", "\"passes\": 0.5", "problems[0].passes");
    check("\"problem\": \"wild\"", "\"problem\": {}", "measurements[4].problem");
    check("\"stream\": \"0\"", "\"stream\": 0", "spans[0].stream");
}

#[test]
fn deep_nesting_is_refused() {
    let depth = 100_000;
    let field = |open: &str, close: &str| {
        format!("{{\"schema\": 2, \"deep\": {}1{}}}", open.repeat(depth), close.repeat(depth))
    };
    let texts = ["[".repeat(depth), "{\"a\":".repeat(depth), field("[", "]"), field("{\"a\":", "}")];
    for text in texts {
        let error = read(&text).expect_err("no record, however deep").to_string();
        // The nesting of values that are read is limited. Skipped values may be nested to any depth, if the text is cut
        // off or lacks a record's fields.
        let why = match &text[..2] {
            "[[" => "recursion limit exceeded",
            "{\"" if text.contains("schema") => "missing field `experiment`",
            _ => "it may have been cut off",
        };
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn links_and_several_gpus_are_part_of_the_format() {
    let run = read(&golden()).unwrap();
    assert!(run.peaks.links.is_empty() && run.measurements.iter().all(|m| m.gpus.is_none() && m.gpus() == 1));
    assert!(!golden().contains("\"links\"") && !golden().contains("\"gpus\""));
    let mut record = json(&golden());
    record["measurements"][1]["gpus"] = 2.into();
    record["peaks"]["bandwidth"][0]["level"] = "link".into();
    record["peaks"]["links"] = serde_json::json!([
        { "transfer": "all_reduce", "gpus": 4, "method": "NCCL", "points": [{ "bytes": 1000, "samples_us": [2.0, 3.0, 4.0] }] },
        { "transfer": "of_the_future", "gpus": 2, "method": "", "points": [] }
    ]);
    let run = read(&record.to_string()).unwrap();
    assert_eq!(run.measurements[1].gpus(), 2);
    assert!(run.peaks.level(MemoryLevel::Link).is_some());
    let [all_reduce, future] = &run.peaks.links[..] else { panic!("two links") };
    assert_eq!(all_reduce.best().map(|(p, rate)| (p.bytes, rate.round())), Some((1000, 5e8)));
    assert_eq!((future.transfer, future.best()), (LinkTransfer::Other, None));
    assert_same(&read(&run.to_json().unwrap()).unwrap(), &run);
}
