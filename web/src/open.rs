//! A file becomes a record that can be shown, or a sentence that says why not.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use warpbook_record::{MAX_BYTES, Problem, ReadError, Run};

/// More than any real record has; a file with more would only stop the page.
const MAX_MEASUREMENTS: usize = 20_000;
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
}

/// Reads a record, and marks it.
///
/// # Errors
/// A sentence for the page's reader.
pub fn open_marked(bytes: &[u8]) -> Result<Box<Opened>, String> {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    Ok(Box::new(Opened { run: open(bytes)?, mark: hasher.finish() }))
}

/// Reads a record and holds it against what the page can show.
///
/// # Errors
/// A sentence for the page's reader.
pub fn open(bytes: &[u8]) -> Result<Run, String> {
    let run = Run::from_json(bytes).map_err(|e| e.to_string())?;
    let limits = [
        ("measurements", run.measurements.len(), MAX_MEASUREMENTS),
        ("training logs", run.train_logs.len(), MAX_MEASUREMENTS),
        ("spans", run.spans.len(), MAX_MEASUREMENTS),
        ("rungs", run.rungs.len(), MAX_RUNGS),
    ];
    for (what, found, most) in limits {
        if found > most {
            return Err(format!("The record has {found} {what}; this page shows records with at most {most}."));
        }
    }
    // Bounded before anything looks for each problem among the others.
    let mut seen = HashSet::new();
    for m in &run.measurements {
        if seen.insert(format!("{:?}", m.problem)) && seen.len() > MAX_PROBLEMS {
            return Err(format!(
                "The record has more than {MAX_PROBLEMS} different problems; this page shows no more."
            ));
        }
    }
    let problems = run.measurements.iter().map(|m| &m.problem).chain(run.train_logs.iter().map(|l| &l.problem));
    if !problems.chain(run.spans.iter().map(|s| &s.problem)).all(countable) {
        return Err("The record has a problem whose sizes are beyond what can be counted.".into());
    }
    Ok(run)
}

/// Whether its operations and bytes fit into the integers that count them, and it equals itself.
fn countable(problem: &Problem) -> bool {
    match problem {
        Problem::Regression { train_points, features, epochs, learning_rate, noise, .. } => {
            let point = features.checked_add(1).and_then(|f| f.checked_mul(8));
            let epoch = point.and_then(|p| p.checked_mul(*train_points));
            let bytes = epoch.and_then(|b| b.checked_mul((*epochs).max(1)));
            // A problem with a NaN in it would not be found again among the others.
            bytes.is_some() && !learning_rate.is_nan() && !noise.is_nan()
        }
        Problem::Matmul { m, n, k, .. } => {
            let terms = m.checked_mul(*n).and_then(|t| t.checked_mul(*k));
            terms.and_then(|t| t.checked_mul(2)).is_some()
                && m.checked_add(*n).and_then(|s| s.checked_mul(*k)).and_then(|s| s.checked_mul(8)).is_some()
        }
        _ => true,
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// A small record with everything in it.
    pub fn sample() -> Value {
        let problem = |points: u64| {
            json!({"kind": "regression", "points": points, "train_points": points / 5 * 4, "epochs": 200,
                   "learning_rate": 0.01, "noise": 0.1, "seed": 1, "dtype": "f32"})
        };
        let check = json!({"reference": "f64 descent on the CPU", "max_abs_error": 1e-6, "max_rel_error": 1e-6,
                           "tolerance": 3e-5, "passed": true});
        let kernel = json!({"file": "regression/02_fused.cu", "entry": "pass", "architecture": "sm_90", "registers": 40,
                            "static_shared_bytes": 192, "spill_store_bytes": 0, "spill_load_bytes": 0,
                            "grid": [528, 1, 1], "block": [512, 1, 1], "blocks_per_multiprocessor": 4, "occupancy": 1.0});
        let measured = |rung: &str, points: u64, us: f64| {
            json!({"rung": rung, "problem": problem(points), "tile": "t512x8", "outcome": {"status": "measured"},
                   "samples_us": [us, us * 1.01, us * 0.99], "samples_total": 3, "wall_us": [us * 1.1],
                   "check": check, "kernels": [kernel]})
        };
        let spec = json!({"file": "regression/02_fused.cu", "entry": "pass", "grid": "resident",
                          "tiles": [{"id": "t512x8", "defines": [{"name": "THREADS", "value": 512}]}]});
        let mut cluster = spec.clone();
        cluster["requires"] = json!({"at_least": [9, 0]});
        let mut on_chip = measured("04_fused_graph", 1_000_000, 900.0);
        on_chip["choice"] = "800000 training points lie in one cluster.".into();
        on_chip["traffic"] = json!([{"level": "l2", "bytes": 1_280_000_000}, {"level": "dram", "bytes": 6_400_000}]);
        on_chip["flops"] = 1_000_000_000.into();
        let mut several = measured("pytorch_eager", 5_000_000, 90_000.0);
        several["problem"]["features"] = 16.into();
        json!({
            "schema": 1, "experiment": "regression", "title": "Fused linear regression",
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
                                     "samples_us": [950.0], "datasheet_bytes_per_s": 4.8e12}],
                      "compute": [{"dtype": "f32", "method": "fma chains", "flops": 1_099_511_627_776u64,
                                   "samples_us": [16_700.0], "datasheet_flops_per_s": 6.7e13}]},
            "rungs": [
                {"id": "02_fused", "title": "Fused", "idea": "One pass.", "requires": {"at_least": [7, 5]},
                 "runner": {"kernels": {"specs": [spec], "schedule": "launches"}}},
                {"id": "04_fused_graph", "title": "Fused in a graph", "idea": "One launch.",
                 "requires": {"at_least": [7, 5]}, "runner": {"kernels": {"specs": [spec, cluster], "schedule": "graph"}}},
                {"id": "pytorch_eager", "title": "PyTorch, eager", "idea": "As a tutorial has it.",
                 "requires": {"at_least": [7, 5]}, "runner": {"external": "PyTorch 2.11.0"}}
            ],
            "sources": {"regression/02_fused.cu": "#include \"reduce.cuh\"\n// idea\n", "reduce.cuh": "#pragma once\n"},
            "measurements": [
                measured("02_fused", 5_000_000, 3000.0), measured("04_fused_graph", 5_000_000, 2600.0),
                measured("02_fused", 1_000_000, 1400.0), on_chip, several
            ],
            "train_logs": [{"rung": "02_fused", "problem": problem(5_000_000),
                            "losses": [{"epoch": 10, "loss": 1.0}, {"epoch": 20, "loss": "NaN"}],
                            "parameters": {"w": 3.0, "b": 2.0}, "train_loss": 0.01, "test_loss": "NaN"}],
            "spans": [{"rung": "02_fused", "problem": problem(5_000_000), "group": "operation", "name": "pass",
                       "samples_us": [11.0]}],
            "notes": ["a remark"]
        })
    }

    /// The sample as a record.
    pub fn sample_run() -> Run {
        open(sample().to_string().as_bytes()).unwrap()
    }

    #[test]
    fn unreadable_files_get_a_sentence() {
        fn check(bytes: &[u8], expect: &str) {
            let error = open(bytes).unwrap_err();
            assert!(error.contains(expect), "{error}");
            assert!(error.ends_with('.'), "{error}");
        }
        check(b"", "not valid JSON");
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
        check(&|v| v["measurements"][0]["problem"]["epochs"] = u64::MAX.into(), "beyond what can be counted");
        check(&|v| v["measurements"][0]["problem"]["noise"] = "NaN".into(), "beyond what can be counted");
        check(&|v| v["measurements"][0]["problem"]["features"] = u64::MAX.into(), "beyond what can be counted");
        check(&|v| v["train_logs"][0]["problem"]["train_points"] = u64::MAX.into(), "beyond what can be counted");
        check(&|v| v["rungs"] = Value::from(vec![v["rungs"][0].clone(); 501]), "501 rungs");
        check(
            &|v| {
                let m = v["measurements"][0].clone();
                v["measurements"] = (0..300)
                    .map(|i| {
                        let mut m = m.clone();
                        m["problem"]["points"] = i.into();
                        m
                    })
                    .collect();
            },
            "more than 200 different problems",
        );
        assert!(check_size(f64::from(64 << 20)).is_ok());
        assert!(check_size(f64::from((64 << 20) + 1)).unwrap_err().contains("65 MiB"));
    }
}
