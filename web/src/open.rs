//! A file becomes a record that can be shown, or a sentence that says why not.

use std::hash::{DefaultHasher, Hash, Hasher};
use warpbook_record::{MAX_BYTES, Outcome, ReadError, Run};

/// More than any real record has; a file with more would only stop the page.
const MAX_MEASUREMENTS: usize = 20_000;
/// A timeline is drawn on a canvas, which more of them would make slow.
const MAX_SPANS: usize = 200_000;
const MAX_RUNGS: usize = 500;
const MAX_PROBLEMS: usize = 200;

/// Refuses a file by its size, before it is read.
///
/// # Errors
/// The sentence of [`ReadError::TooLarge`].
pub fn check_size(bytes: f64) -> Result<(), String> {
    if bytes > MAX_BYTES as f64 { Err(ReadError::TooLarge { bytes: bytes as usize }.to_string()) } else { Ok(()) }
}

/// A record, and the mark of the file that it was read from.
#[derive(Debug)]
pub struct Opened {
    /// The record.
    pub run: Run,
    /// The same for the same bytes; a record itself need not equal itself, since a diverged one has NaN in it.
    pub mark: u64,
    /// The file's text, where a link may be large enough for it.
    pub text: Option<String>,
}

/// What is compressed to a link's length has hardly ever more bytes.
const MAX_LINKED: usize = 4 << 20;

/// Reads a record, and marks it.
///
/// # Errors
/// A sentence for the page's reader.
pub fn open_marked(bytes: &[u8]) -> Result<Box<Opened>, String> {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    let run = open(bytes)?;
    let text = std::str::from_utf8(bytes).ok().filter(|t| t.len() <= MAX_LINKED);
    let text = text.map(|t| t.trim_start_matches('\u{feff}').to_owned());
    Ok(Box::new(Opened { run, mark: hasher.finish(), text }))
}

/// Reads a record and holds it against what the page can show.
///
/// # Errors
/// A sentence for the page's reader.
pub fn open(bytes: &[u8]) -> Result<Run, String> {
    let mut run = Run::from_json(bytes).map_err(|e| e.to_string())?;
    let limits = [
        ("measurements", run.measurements.len(), MAX_MEASUREMENTS),
        ("training logs", run.train_logs.len(), MAX_MEASUREMENTS),
        ("parts", run.parts.len(), MAX_MEASUREMENTS),
        ("spans", run.spans.len(), MAX_SPANS),
        ("X-rayed blocks", run.xrays.iter().map(|x| x.blocks.len()).sum(), MAX_SPANS),
        ("counted kernels", run.profiled.iter().map(|p| p.counters.len()).sum(), MAX_MEASUREMENTS),
        ("rungs", run.rungs.len(), MAX_RUNGS),
        ("problems", run.problems.len(), MAX_PROBLEMS),
    ];
    for (what, found, most) in limits {
        if found > most {
            return Err(format!("The record has {found} {what}; this page shows records with at most {most}."));
        }
    }
    check_times(&run)?;
    tidy_texts(&mut run);
    // A median of the other samples would look like a result.
    for m in run.measurements.iter_mut().filter(|m| m.outcome == Outcome::Measured) {
        if m.samples_us.iter().any(|us| !us.is_finite()) {
            m.outcome = Outcome::Failed { error: "one of its times is no finite number".into() };
        }
    }
    Ok(run)
}

/// The longest title, name or author that is shown, and the longest of other texts, in characters.
pub const MAX_TITLE: usize = 200;
/// See [`MAX_TITLE`].
pub const MAX_TEXT: usize = 2_000;

/// A text of a record on one line: without the marks that reorder what is around them, and no longer than this many characters.
pub fn tidy(text: &str, most: usize) -> String {
    let line = warpbook_charts::clean(text);
    if line.chars().count() <= most {
        return line;
    }
    let mut cut: String = line.chars().take(most.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

/// Tidies what the page shows as a heading, a name or a sentence: these texts are the record's to choose.
fn tidy_texts(run: &mut Run) {
    let title = |text: &str| tidy(text, MAX_TITLE);
    run.title = title(&run.title);
    run.author = run.author.as_deref().map(title);
    run.environment.device.name = title(&run.environment.device.name);
    for rung in &mut run.rungs {
        rung.title = title(&rung.title).into();
        rung.idea = tidy(&rung.idea, MAX_TEXT).into();
    }
}

/// A time that no run could have taken: eleven days, in microseconds.
const LONGEST_US: f64 = 1e12;

/// An error with the path of the first time that is none: a speed would be made of it. What is no finite number is no time of a whole
/// measurement, which the record may say.
fn check_times(run: &Run) -> Result<(), String> {
    let of = |what: &str, samples: &[f64]| {
        let wrong = samples.iter().position(|us| us.is_finite() && !(0.0..=LONGEST_US).contains(us));
        wrong.map_or(Ok(()), |i| {
            Err(format!(
                "{what}[{i}] is {}: a time is a number of microseconds from 0 to {LONGEST_US:e}. The record was changed after it was \
                 written, or by a program that is not Warpbook.",
                samples[i]
            ))
        })
    };
    for (i, m) in run.measurements.iter().enumerate() {
        of(&format!("measurements[{i}].samples_us"), &m.samples_us)?;
        of(&format!("measurements[{i}].wall_us"), &m.wall_us)?;
    }
    for (i, part) in run.parts.iter().enumerate() {
        of(&format!("parts[{i}].samples_us"), &part.samples_us)?;
    }
    Ok(())
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// A small record with everything in it.
    pub fn sample() -> Value {
        let problem = |label: &str, short: &str, points: u64, features: u64, line: &str| {
            let train_points = points / 5 * 4;
            let several = if features > 1 { format!(" features={features}") } else { String::new() };
            json!({"id": format!("points={points}{several} epochs=200 fp32"), "label": label, "short": short,
                   "sizes": [{"name": "points", "value": points, "unit": "points"}, {"name": "features", "value": features},
                             {"name": "epochs", "value": 200}, {"name": "noise", "value": "NaN"}],
                   "dtype": "f32", "flops": train_points * 200 * (4 * features + 4),
                   "bytes": train_points * 200 * 4 * (features + 1), "working_set_bytes": train_points * 4 * (features + 1),
                   "passes": 200, "sweep": {"size": points, "line": line}})
        };
        let (main, small) = ("points=5000000 epochs=200 fp32", "points=1000000 epochs=200 fp32");
        let wide = "points=5000000 features=16 epochs=200 fp32";
        let check = json!({"reference": "f64 descent on the CPU", "max_abs_error": 1e-6, "max_rel_error": 1e-6,
                           "tolerance": 3e-5, "passed": true});
        let kernel = json!({"file": "regression/02_fused.cu", "entry": "pass", "architecture": "sm_90", "registers": 40,
                            "static_shared_bytes": 192, "spill_store_bytes": 0, "spill_load_bytes": 0,
                            "grid": [528, 1, 1], "block": [512, 1, 1], "blocks_per_multiprocessor": 4, "occupancy": 1.0});
        let measured = |rung: &str, problem: &str, us: f64| {
            json!({"rung": rung, "problem": problem, "tile": "t512x8", "outcome": {"status": "measured"},
                   "samples_us": [us, us * 1.01, us * 0.99], "samples_total": 3, "wall_us": [us * 1.1],
                   "check": check, "kernels": [kernel]})
        };
        let spec = json!({"file": "regression/02_fused.cu", "entry": "pass", "grid": "resident",
                          "tiles": [{"id": "t512x8", "defines": [{"name": "THREADS", "value": 512}]}]});
        let mut cluster = spec.clone();
        cluster["requires"] = json!({"at_least": [9, 0]});
        let mut on_chip = measured("04_fused_graph", small, 900.0);
        on_chip["choice"] = "800000 training points lie in one cluster.".into();
        on_chip["traffic"] = json!([{"level": "l2", "bytes": 1_280_000_000}, {"level": "dram", "bytes": 6_400_000}]);
        on_chip["flops"] = 1_000_000_000.into();
        json!({
            "schema": 2, "experiment": "regression", "title": "Fused linear regression", "author": "Ada",
            "created": "2026-11-21T07:00:00Z", "command": "warpbook run regression",
            "environment": {
                "device": {"kind": "cuda", "index": 0, "name": "NVIDIA H200", "memory_bytes": 150_000_000_000u64,
                           "multiprocessors": 132, "compute_capability": [9, 0], "l2_bytes": 62_914_560},
                "driver": "580.65.06", "cuda": "13.0", "nvrtc": "13.0", "cpu": "Xeon", "cpu_threads": 16,
                "os": "linux x86_64", "warpbook": "0.1.0", "debug_assertions": false,
                "clocks": {"source": "NVML", "readings": 8, "sm_mhz": [1980, 1980], "throttling": ["power cap"]}
            },
            "policy": {"timed_by": "cuda_events", "l2": "warm", "warmup": 3, "samples": 20, "budget_s": 2.0,
                       "batch_below_us": 50.0, "inputs": "x on [0, 10), y = 3x + 2 + noise"},
            "peaks": {"bandwidth": [{"level": "dram", "method": "sum of 4 GiB", "bytes": 4_294_967_296u64,
                                     "samples_us": [950.0], "datasheet_bytes_per_s": 4.8e12},
                                    {"level": "dram", "access": "copy", "method": "copy of 1 GB", "bytes": 2_000_000_000u64,
                                     "samples_us": [500.0]}],
                      "compute": [{"dtype": "f32", "method": "fma chains", "flops": 1_099_511_627_776u64,
                                   "samples_us": [16_700.0], "datasheet_flops_per_s": 6.7e13}]},
            "descriptor": {
                "headline": "time", "quantities": ["time", "speed_up", "bandwidth"], "baseline": "first_valid",
                "axis": {"caption": "points", "unit": "points"},
                "columns": ["median", "mad", "pass_time", "speed_up", "bandwidth", "of_bound", "check"],
                "charts": ["ladder", "sweep", "roofline", "operations", "ablation", "loss", "heat_map", "tiles", "transfers",
                           "breakdown", "timeline"],
                "pass": "epoch", "levels": ["dram", "l2"], "loss": "mean squared error"
            },
            "problems": [
                problem("5 M points, 200 epochs", "5 M", 5_000_000, 1, "200 epochs"),
                problem("1 M points, 200 epochs", "1 M", 1_000_000, 1, "200 epochs"),
                problem("5 M points of 16 features, 200 epochs", "5 M × 16", 5_000_000, 16, "16 features, 200 epochs")
            ],
            "main_problem": main,
            "rungs": [
                {"id": "02_fused", "title": "Fused", "idea": "One pass.", "requires": {"at_least": [7, 5]},
                 "runner": {"kernels": {"specs": [spec], "schedule": "launches"}}},
                {"id": "04_fused_graph", "title": "Fused in a graph", "idea": "One launch.", "variant_of": "02_fused",
                 "requires": {"at_least": [7, 5]}, "runner": {"kernels": {"specs": [spec, cluster], "schedule": "graph"}}},
                {"id": "pytorch_eager", "title": "PyTorch, eager", "idea": "As a tutorial has it.",
                 "requires": {"at_least": [7, 5]}, "runner": {"external": "PyTorch 2.11.0"}}
            ],
            "sources": {"regression/02_fused.cu": "#include \"reduce.cuh\"\n// idea\n", "reduce.cuh": "#pragma once\n"},
            "measurements": [
                measured("02_fused", main, 3000.0), measured("04_fused_graph", main, 2600.0),
                measured("02_fused", small, 1400.0), on_chip, measured("pytorch_eager", wide, 90_000.0)
            ],
            "train_logs": [{"rung": "02_fused", "problem": main,
                            "losses": [{"epoch": 10, "loss": 1.0}, {"epoch": 20, "loss": "NaN"}],
                            "parameters": {"w": 3.0, "b": 2.0}, "train_loss": 0.01, "test_loss": "NaN"}],
            "parts": [{"rung": "02_fused", "problem": main, "group": "operation", "name": "pass", "samples_us": [11.0]},
                      {"rung": "", "problem": main, "group": "transfer", "name": "to the device", "samples_us": [600.0]}],
            "spans": [{"rung": "02_fused", "problem": main, "name": "pass", "stream": "0", "start_us": 0.0,
                       "duration_us": 11.0, "operation": "conv1 forward"}],
            "breakdowns": [{"rung": "02_fused", "problem": main, "source": "CUPTI 130001", "whole_us": [11.5], "busy_us": [11.0],
                            "between_us": [2.0],
                            "operations": [{"name": "conv1 forward", "kernels": ["pass"], "launches": 1, "samples_us": [11.0],
                                            "flops": 1_000_000, "bytes": 32_000_000, "written_bytes": 0, "dtype": "f16"}]}],
            "notes": ["a remark"]
        })
    }

    /// The sample as a record.
    /// How a training in fp16 went.
    pub fn course() -> Value {
        json!({"recipe": [["optimiser", "Adam"], ["seed", "1"]], "data": "synthetic digits: drawn by a program (seed 1)",
               "log_every": 1, "first_step": 0, "steps": 4, "steps_per_epoch": 2, "learning_rates": [{"step": 1, "value": 0.05}],
               "loss_scales": [{"step": 1, "value": 65536.0}, {"step": 3, "value": 32768.0}], "skipped_steps": [2],
               "skipped_total": 1, "gradient_norms": [], "total_s": 1.5, "peak_allocated_bytes": 1_048_576,
               "epochs": [{"epoch": 1, "step": 2, "seconds": 0.5, "train_loss": 2.2, "test_loss": 2.0,
                           "train": {"correct": 10, "of": 64}, "test": {"correct": 20, "of": 64}},
                          {"epoch": 2, "step": 4, "seconds": 0.5, "train_loss": 1.2, "test_loss": 1.1,
                           "train": {"correct": 30, "of": 64}, "test": {"correct": 40, "of": 64}}],
               "ended": "finished"})
    }

    /// A record of nothing but a training.
    pub fn training_run() -> Run {
        let mut value = sample();
        value["measurements"] = json!([]);
        value["parts"] = json!([]);
        value["train_logs"].as_array_mut().unwrap().truncate(1);
        value["train_logs"][0]["course"] = course();
        for (i, point) in value["train_logs"][0]["losses"].as_array_mut().unwrap().iter_mut().enumerate() {
            point["step"] = json!(i + 1);
        }
        value["descriptor"]["charts"] = json!(["loss", "accuracy", "learning_rate", "loss_scale", "gradient_norm"]);
        open(value.to_string().as_bytes()).unwrap()
    }

    pub fn sample_run() -> Run {
        open(sample().to_string().as_bytes()).unwrap()
    }

    /// The same without a field.
    pub fn sample_run_without(field: &str) -> Run {
        let mut value = sample();
        assert!(value.as_object_mut().unwrap().remove(field).is_some(), "{field}");
        open(value.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn unreadable_files_get_a_sentence() {
        fn check(bytes: &[u8], expect: &str) {
            let error = open(bytes).unwrap_err();
            assert!(error.contains(expect), "{error}");
            assert!(error.ends_with('.'), "{error}");
        }
        check(b"", "is empty");
        check(b"\xff\xfe", "not UTF-8");
        check(b"[1]", "no Warpbook record");
        check(b"{\"schema\":99}", "Update Warpbook");
        check("[".repeat(100_000).as_bytes(), "not valid JSON");
        let text = sample().to_string();
        check(&text.as_bytes()[..text.len() / 2], "cut off");
    }

    #[test]
    fn records_beyond_all_measure_are_refused() {
        let check = |change: &dyn Fn(&mut Value), expect: &str| {
            let mut value = sample();
            change(&mut value);
            let error = open(value.to_string().as_bytes()).unwrap_err();
            assert!(error.contains(expect), "{error}");
        };
        check(&|v| v["rungs"] = Value::from(vec![v["rungs"][0].clone(); 501]), "501 rungs");
        check(&|v| v["parts"] = Value::from(vec![v["parts"][0].clone(); 20_001]), "20001 parts");
        check(&|v| v["spans"] = Value::from(vec![v["spans"][0].clone(); 200_001]), "200001 spans");
        let many = |v: &mut Value| {
            let numbered = |i: u64| {
                let mut p = v["problems"][0].clone();
                p["id"] = i.to_string().into();
                p
            };
            let more: Vec<Value> = (0..300).map(numbered).collect();
            v["problems"].as_array_mut().unwrap().extend(more);
        };
        check(&many, "303 problems; this page shows records with at most 200");
        assert!(check_size(f64::from(64 << 20)).is_ok());
        assert!(check_size(f64::from((64 << 20) + 1)).unwrap_err().contains("65 MiB"));
    }

    #[test]
    fn a_problem_whose_numbers_cannot_be_counted_is_still_found() {
        let v1 = |work: Value| {
            let mut value: Value =
                serde_json::from_slice(include_bytes!("../../crates/warpbook-record/tests/golden/run.v1.json"))
                    .unwrap();
            let problem = &mut value["measurements"][0]["problem"];
            problem.as_object_mut().unwrap().extend(work.as_object().unwrap().clone());
            value
        };
        let check = |value: Value| {
            let run = open(value.to_string().as_bytes()).unwrap();
            let problem = &run.measurements[0].problem;
            assert!(run.problems().contains(&problem) && !run.ladder(problem).is_empty());
        };
        check(v1(json!({"epochs": u64::MAX, "features": u64::MAX})));
        check(v1(json!({"train_points": u64::MAX})));
        check(v1(json!({"noise": "NaN", "learning_rate": "Infinity"})));
        let mut value = sample();
        for field in ["flops", "bytes", "written_bytes", "working_set_bytes", "passes", "items"] {
            value["problems"][0][field] = u64::MAX.into();
        }
        check(value);
    }

    #[test]
    fn a_time_that_is_none_is_refused_with_its_path() {
        for (value, said) in [(json!(-5), "is -5"), (json!(1e308), "is 1")] {
            let mut record = sample();
            record["measurements"][1]["samples_us"][2] = value;
            let why = open(record.to_string().as_bytes()).unwrap_err();
            assert!(why.starts_with("measurements[1].samples_us[2] ") && why.contains(said), "{why}");
        }
        for value in ["NaN", "Infinity"] {
            let mut record = sample();
            record["measurements"][1]["samples_us"][2] = value.into();
            let run = open(record.to_string().as_bytes()).unwrap();
            assert!(!run.is_sound(&run.measurements[1]) && sample_run().is_sound(&run.measurements[2]), "{value}");
        }
        let mut record = sample();
        record["measurements"][0]["wall_us"][0] = json!(-1);
        assert!(open(record.to_string().as_bytes()).unwrap_err().starts_with("measurements[0].wall_us[0]"));
        let mut record = sample();
        record["measurements"][0]["samples_us"][0] = json!(0);
        assert!(open(record.to_string().as_bytes()).is_ok(), "a clock may be too coarse");
    }
}
