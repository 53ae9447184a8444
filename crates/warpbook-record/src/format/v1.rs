//! Upgrades records of format 1 while they are read. This file is frozen: it defines the meaning of that format for
//! each experiment, and changes only to correct a mistake.

use crate::format::real::Real;
use crate::{
    Baseline, ChartKind, Column, Descriptor, Dtype, MemoryLevel, Problem, Quantity, SCHEMA, SweepAxis, SweepPoint,
    count, setting, short_count,
};
use serde::Deserialize;
use serde_json::Value;
use std::collections::HashSet;

/// Upgrades a record of format 1 to format 2 and returns its problems and its descriptor, which are set later. The
/// error names an entry whose problem does not exist in format 1; the reader reports any other error.
pub(crate) fn upgrade(run: &mut Value) -> Result<(Vec<Problem>, Descriptor), String> {
    let mut problems: Vec<Problem> = Vec::new();
    let mut seen = HashSet::new();
    for list in ["measurements", "train_logs", "spans"] {
        let Some(Value::Array(entries)) = run.get_mut(list) else { continue };
        for (i, entry) in entries.iter_mut().enumerate() {
            let Some(of) = entry.get_mut("problem") else { continue };
            let found = problem(of).map_err(|e| format!("the problem of {list}[{i}] is not one of format 1: {e}"))?;
            *of = found.id.clone().into();
            if seen.insert(found.id.clone()) {
                problems.push(found);
            }
        }
    }
    run["schema"] = SCHEMA.into();
    if let Value::Object(fields) = run {
        let renamed = |name: String| if name == "spans" { "parts".to_owned() } else { name };
        let kept = std::mem::take(fields).into_iter().filter(|(name, _)| name != "problems" && name != "descriptor");
        *fields = kept.map(|(name, value)| (renamed(name), value)).collect();
    }
    if let Some(main) = main_problem(&problems) {
        run["main_problem"] = main.id.clone().into();
    }
    if let Some(Value::Array(rungs)) = run.get_mut("rungs") {
        rungs.iter_mut().for_each(upgrade_rung);
    }
    Ok((problems, descriptor(run.get("experiment").and_then(Value::as_str).unwrap_or_default())))
}

/// Moves the size of a cluster into the tile, and the name of a variant's rung from the variant's id into a field.
fn upgrade_rung(rung: &mut Value) {
    let kernels = rung.get_mut("runner").and_then(|r| r.get_mut("kernels"));
    if let Some(schedule) = kernels.and_then(|k| k.get_mut("schedule"))
        && schedule.get("cluster").is_some_and(Value::is_u64)
    {
        *schedule = "clusters".into();
    }
    let id = rung.get("id").and_then(Value::as_str);
    if let Some((base, _)) = id.and_then(|id| id.split_once('+')) {
        let base = base.to_owned();
        rung["variant_of"] = base.into();
    }
}

/// The kind of a problem in format 1, which is read first to choose the struct for the rest.
#[derive(Deserialize)]
struct Kind {
    kind: String,
}

#[derive(Deserialize)]
struct Regression {
    points: u64,
    train_points: u64,
    #[serde(default = "one")]
    features: u64,
    epochs: u64,
    learning_rate: Real,
    noise: Real,
    seed: u64,
    dtype: Dtype,
}

#[derive(Deserialize)]
struct Matmul {
    m: u64,
    n: u64,
    k: u64,
    dtype: Dtype,
    #[serde(default)]
    out: Option<Dtype>,
    #[serde(default)]
    trans_a: bool,
    #[serde(default)]
    trans_b: bool,
    seed: u64,
}

const fn one() -> u64 {
    1
}

fn problem(of: &Value) -> serde_json::Result<Problem> {
    let kind = Kind::deserialize(of)?.kind;
    Ok(match kind.as_str() {
        "regression" => regression(&Regression::deserialize(of)?),
        "matmul" => matmul(&Matmul::deserialize(of)?),
        kind => Problem::new("unknown work", "?", vec![setting("kind", kind)], Dtype::Other),
    })
}

fn regression(work: &Regression) -> Problem {
    let Regression { points, train_points, features, epochs, dtype, .. } = *work;
    let mut sizes = vec![count("points", points, "points"), count("train_points", train_points, "points")];
    if features != 1 {
        sizes.push(count("features", features, ""));
    }
    sizes.extend([
        count("epochs", epochs, ""),
        setting("learning_rate", work.learning_rate.0),
        setting("noise", work.noise.0),
        setting("seed", work.seed),
    ]);
    let (short, label, line) = match (short_count(points), features) {
        (n, 1) => (n.clone(), format!("{n} points, {epochs} epochs"), format!("{epochs} epochs")),
        (n, f) => (
            format!("{n} × {f}"),
            format!("{n} points of {f} features, {epochs} epochs"),
            format!("{f} features, {epochs} epochs"),
        ),
    };
    let working_set = train_points.saturating_mul(features.saturating_add(1).saturating_mul(dtype.bytes()));
    Problem::new(label, short, sizes, dtype).with(|p| {
        p.flops = train_points.saturating_mul(epochs).saturating_mul(features.saturating_mul(4).saturating_add(4));
        p.working_set_bytes = working_set;
        p.bytes = working_set.saturating_mul(epochs);
        p.passes = epochs;
        p.sweep = Some(SweepPoint { size: points, line });
    })
}

fn matmul(work: &Matmul) -> Problem {
    let Matmul { m, n, k, dtype, out, trans_a, trans_b, seed } = *work;
    let mut sizes = vec![count("m", m, "rows"), count("n", n, "columns"), count("k", k, "terms")];
    sizes.extend(out.map(|o| setting("out", o.label())));
    let flags = [("trans_a", trans_a), ("trans_b", trans_b)];
    sizes.extend(flags.into_iter().filter(|(_, is)| *is).map(|(name, _)| setting(name, 1u64)));
    sizes.push(setting("seed", seed));
    let cube = m == n && n == k;
    let short = if cube { format!("{m}³") } else { format!("{m} × {n} × {k}") };
    let to = out.filter(|o| *o != dtype).map_or_else(String::new, |o| format!(" to {}", o.label()));
    let transposed = match (trans_a, trans_b) {
        (false, false) => "",
        (true, false) => ", A transposed",
        (false, true) => ", B transposed",
        (true, true) => ", A and B transposed",
    };
    let line = format!("{}{to}{transposed}", dtype.label());
    let inputs = m.saturating_add(n).saturating_mul(k).saturating_mul(dtype.bytes());
    let bytes = inputs.saturating_add(m.saturating_mul(n).saturating_mul(out.unwrap_or(dtype).bytes()));
    Problem::new(format!("{short} {line}"), short, sizes, dtype).with(|p| {
        p.flops = m.saturating_mul(n).saturating_mul(k).saturating_mul(2);
        (p.bytes, p.working_set_bytes) = (bytes, bytes);
        p.sweep = cube.then_some(SweepPoint { size: m, line });
    })
}

/// Returns the problem that the lessons discuss: 5 M points of one feature, or the cube of 4096, preferably in bf16.
fn main_problem(problems: &[Problem]) -> Option<&Problem> {
    let rank = |p: &Problem| {
        let is = |name: &str, value: u64| p.count(name) == Some(value);
        let points = is("points", 5_000_000) && p.count("features").is_none();
        let cube = is("m", 4096) && is("n", 4096) && is("k", 4096);
        u8::from(points) + u8::from(cube) * (1 + u8::from(p.dtype == Dtype::Bf16))
    };
    // The first of several equals wins. Problems with measurements come before problems with only a training or a part.
    problems.iter().rev().filter(|p| rank(p) > 0).max_by_key(|p| rank(p))
}

fn descriptor(experiment: &str) -> Descriptor {
    use Column::{Check, Mad, Median, OfBound, OfLibrary, PassTime, SpeedUp};
    match experiment {
        "regression" => Descriptor {
            axis: SweepAxis { caption: "points".into(), unit: "points".into(), doubling: false },
            columns: vec![Median, Mad, PassTime, SpeedUp, Column::Bandwidth, OfBound, Check],
            charts: vec![
                ChartKind::Ladder,
                ChartKind::Sweep,
                ChartKind::Roofline,
                ChartKind::Operations,
                ChartKind::Ablation,
                ChartKind::Loss,
            ],
            pass: "epoch".into(),
            levels: vec![MemoryLevel::Dram, MemoryLevel::L2, MemoryLevel::Shared, MemoryLevel::Registers],
            loss: "mean squared error on the training points".into(),
            ..Descriptor::default()
        },
        "matmul" => Descriptor {
            headline: Quantity::Throughput,
            quantities: vec![Quantity::Throughput, Quantity::Time, Quantity::SpeedUp],
            baseline: Baseline::FastestLibrary,
            axis: SweepAxis { caption: "edge of the matrices (m = n = k)".into(), unit: String::new(), doubling: true },
            columns: vec![Median, Mad, Column::Throughput, OfLibrary, OfBound, Check, Column::Tile],
            charts: vec![
                ChartKind::Ladder,
                ChartKind::HeatMap,
                ChartKind::Sweep,
                ChartKind::Roofline,
                ChartKind::Tiles,
                ChartKind::Transfers,
            ],
            above_bound:
                "bytes are counted as blocks request them, and requests of neighbouring SMs for one line can be \
                          served at once"
                    .into(),
            ..Descriptor::default()
        },
        _ => Descriptor::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn converted(problem_of_v1: &Value) -> Problem {
        problem(problem_of_v1).unwrap_or_else(|e| panic!("{problem_of_v1}: {e}"))
    }

    fn product((m, n, k): (u64, u64, u64), dtype: &str, more: &Value) -> Problem {
        let mut value = json!({ "kind": "matmul", "m": m, "n": n, "k": k, "dtype": dtype, "seed": 1 });
        let more = more.as_object().expect("an object").clone();
        value.as_object_mut().expect("an object").extend(more);
        converted(&value)
    }

    #[test]
    fn a_product_reads_a_and_b_and_writes_c() {
        let p = product((2, 3, 5), "bf16", &json!({}));
        assert_eq!((p.flops, p.bytes, p.working_set_bytes), (60, (10 + 15 + 6) * 2, (10 + 15 + 6) * 2));
        assert_eq!((p.label.as_str(), p.short.as_str(), p.size()), ("2 × 3 × 5 bf16", "2 × 3 × 5", 0));
        assert_eq!(p.id, "m=2 n=3 k=5 seed=1 bf16");
        assert!(!p.same_line(&p), "only cubes lie on a line");
        let to_f32 = product((2, 3, 5), "bf16", &json!({ "out": "f32", "trans_a": true, "trans_b": true }));
        assert_eq!(to_f32.bytes, (10 + 15) * 2 + 6 * 4);
        assert_eq!(to_f32.label, "2 × 3 × 5 bf16 to fp32, A and B transposed");
        assert_eq!(to_f32.id, "m=2 n=3 k=5 out=fp32 trans_a=1 trans_b=1 seed=1 bf16");
        let cube = |n, dtype, more| product((n, n, n), dtype, &more);
        let tf32 = cube(4096, "tf32", json!({}));
        assert_eq!((tf32.label.as_str(), tf32.short.as_str(), tf32.size()), ("4096³ tf32", "4096³", 4096));
        assert!(tf32.same_line(&cube(64, "tf32", json!({}))));
        assert!(!tf32.same_line(&cube(64, "f16", json!({}))));
        assert!(!tf32.same_line(&cube(64, "tf32", json!({ "trans_b": true }))));
        let huge = product((u64::MAX, u64::MAX, u64::MAX), "f64", &json!({}));
        assert_eq!((huge.flops, huge.bytes), (u64::MAX, u64::MAX));
    }

    #[test]
    fn a_regression_reads_x_and_y_once_an_epoch() {
        let with = |features: u64| {
            converted(&json!({
                "kind": "regression", "points": 5_000_000, "train_points": 4_000_000, "features": features,
                "epochs": 200, "learning_rate": 0.01, "noise": "NaN", "seed": 1, "dtype": "f32"
            }))
        };
        let (one, several) = (with(1), with(16));
        assert_eq!((one.working_set_bytes, one.bytes, one.flops), (32_000_000, 6_400_000_000, 6_400_000_000));
        assert_eq!((one.count("features"), one.passes, one.size()), (None, 200, 5_000_000));
        assert!(one.real("noise").is_some_and(f64::is_nan));
        assert_eq!((several.working_set_bytes, several.flops), (4_000_000 * 17 * 4, 4_000_000 * 68 * 200));
        assert_eq!(several.label, "5 M points of 16 features, 200 epochs");
        assert_eq!((several.short.as_str(), several.count("features")), ("5 M × 16", Some(16)));
        assert!(!one.same_line(&several));
        assert_eq!(main_problem(&[several, one.clone()]), Some(&one));
    }

    #[test]
    fn the_main_problem_is_the_size_of_the_lessons() {
        let cube = |n, dtype| product((n, n, n), dtype, &json!({}));
        let (f32, bf16, larger) = (cube(4096, "f32"), cube(4096, "bf16"), cube(8192, "bf16"));
        assert_eq!(main_problem(&[f32.clone(), bf16.clone(), larger.clone()]), Some(&bf16));
        assert_eq!(main_problem(&[larger.clone(), f32.clone(), cube(4096, "f16")]), Some(&f32));
        assert_eq!(main_problem(&[larger]), None);
    }
}
