//! Small sample records.

use crate::library::open::open;
use serde_json::{Value, json};
use warpbook_record::Run;

/// Returns a small record that has every field.
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

/// Returns the course of a training in fp16.
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

/// Returns a record that has only a training.
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

/// Returns the sample as a parsed record.
pub fn sample_run() -> Run {
    open(sample().to_string().as_bytes()).unwrap()
}

/// Returns the parsed sample without one field.
pub fn sample_run_without(field: &str) -> Run {
    let mut value = sample();
    assert!(value.as_object_mut().unwrap().remove(field).is_some(), "{field}");
    open(value.to_string().as_bytes()).unwrap()
}
