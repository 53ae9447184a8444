//! The catalogue of rungs: the source text, tiles, capabilities, counted memory traffic and costs of each kernel.
//!
//! A new rung is a `.cu` file below `kernels/` and a row here. This crate consists of plain data and pure functions; it compiles and
//! runs nothing.
#![forbid(unsafe_code)]

pub mod guide;
mod include;
mod launch;
pub mod matmul;
pub mod nn;
pub mod regression;
mod shared;
mod tile;
mod tolerance;
pub mod xray;

pub use include::{Include, includes};
pub use launch::{Launch, over_items, over_tiles};
pub use shared::{
    HEADERS, READ_SPAN, READ_WIDTHS, TENSOR_CORE_TYPES, all, copy, exchanges, fma_chains, gaussians, mma_rounds,
    permutation, read_sum, read_together, registers, shared_reads, shared_sum, uniforms, wgmma_rounds,
};
pub use tolerance::Tolerance;

#[cfg(test)]
mod tests {
    use warpbook_record::{Dtype, Run};

    /// When a record of format 1 is read, its problems are converted to the experiments' current form, so that old and new records can
    /// be compared.
    #[test]
    fn upgraded_problems_are_those_of_the_experiments() {
        let problems = serde_json::json!([
            { "kind": "regression", "points": 5_000_000, "train_points": 4_000_000, "epochs": 200, "learning_rate": 0.01,
              "noise": 0.1, "seed": 1, "dtype": "f32" },
            { "kind": "regression", "points": 100, "train_points": 80, "features": 16, "epochs": 2, "learning_rate": 1.5,
              "noise": 0.0, "seed": 9, "dtype": "f32" },
            { "kind": "matmul", "m": 64, "n": 64, "k": 64, "dtype": "bf16", "trans_b": true, "seed": 1 },
            { "kind": "matmul", "m": 2, "n": 3, "k": 5, "dtype": "tf32", "seed": 3 },
        ]);
        let row = |p| serde_json::json!({ "rung": "x", "problem": p, "outcome": { "status": "measured" } });
        let measurements: Vec<_> = problems.as_array().unwrap().iter().map(row).collect();
        let record = serde_json::json!({
            "schema": 1, "experiment": "regression",
            "environment": { "device": { "kind": "cpu", "index": 0, "name": "Xeon", "memory_bytes": 1, "multiprocessors": 2 },
                "cpu": "Xeon", "cpu_threads": 2, "os": "linux", "warpbook": "0.1.0", "debug_assertions": true },
            "policy": { "timed_by": "wall_clock", "l2": "warm", "warmup": 1, "samples": 5, "budget_s": 1, "batch_below_us": 50,
                "inputs": "" },
            "measurements": measurements,
        });
        let run = Run::from_json(record.to_string().as_bytes()).unwrap();
        let descent = |points, train_points, features, epochs, learning_rate, noise, seed| {
            let line = super::regression::Line::default();
            super::regression::Descent { points, train_points, features, epochs, learning_rate, noise, seed, line }
                .problem()
        };
        let want = [
            descent(5_000_000, 4_000_000, 1, 200, 0.01, 0.1, 1),
            descent(100, 80, 16, 2, 1.5, 0.0, 9),
            super::matmul::problem((64, 64, 64), Dtype::Bf16, (false, true), 1),
            super::matmul::problem((2, 3, 5), Dtype::Tf32, (false, false), 3),
        ];
        for (m, want) in run.measurements.iter().zip(&want) {
            // All words and numbers are compared, not only the ids.
            assert_eq!(format!("{:?}", m.problem), format!("{want:?}"));
        }
    }
}
