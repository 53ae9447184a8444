//! The table of whole trainings, from every record whose samples are trainings to an accuracy.

use super::Record;
use super::tables::{WHOLE_TRAININGS, cell, code, date, figures_head, heading, markdown, or_dash, words_head};
use warpbook_charts::words;
use warpbook_record::{Measurement, PartGroup, Run, stats};

/// Returns true if a record's samples are whole trainings.
fn is_whole(run: &Run) -> bool {
    run.experiment == "time-to-accuracy"
}

/// Formats times in microseconds: "961 ms (871 ms to 1.02 s)".
fn times(samples_us: &[f64]) -> Option<String> {
    let (mean, _) = stats::moments(samples_us)?;
    let [least, most] = extremes(samples_us).map(words::time);
    Some(format!("{} ({least} to {most})", words::time(mean)))
}

/// Formats accuracies: "90.49 % (90.19 to 90.67 %)".
fn accuracies(m: &Measurement) -> Option<String> {
    let (mean, _) = m.accuracy()?;
    let all: Vec<f64> = m.test.iter().filter_map(|right| right.accuracy()).collect();
    let [least, most] = extremes(&all).map(|share| 100.0 * share);
    Some(format!("{:.2} % ({least:.2} to {most:.2} %)", 100.0 * mean))
}

fn extremes(values: &[f64]) -> [f64; 2] {
    let fold = |f: fn(f64, f64) -> f64| values.iter().copied().reduce(f).unwrap_or(f64::NAN);
    [fold(f64::min), fold(f64::max)]
}

/// Lists the median phases of a rung: "import 5.9 s, data 53.0 ms".
fn phases(run: &Run, m: &Measurement) -> Option<String> {
    let parts = run.parts.iter().filter(|p| p.group == PartGroup::Phase && p.rung == m.rung && p.problem == m.problem);
    let each = parts.filter_map(|p| Some(format!("{} {}", cell(&p.name), words::time(p.median_us()?))));
    let each: Vec<String> = each.collect();
    (!each.is_empty()).then(|| each.join(", "))
}

/// Returns a table with one row for each rung in records of whole trainings, with phases if the records have any; `None`
/// if there is no such record.
pub(super) fn trainings(records: &[Record]) -> Option<String> {
    let mut rows = Vec::new();
    let mut told = Vec::new();
    for record in records.iter().filter(|r| is_whole(&r.run)) {
        let run = &record.run;
        for m in &run.measurements {
            let Some(rung) = run.rung(&m.rung) else { continue };
            if !run.is_sound(m) {
                continue;
            }
            let from = m.problem.text("from").unwrap_or_default();
            rows.push(vec![
                format!("[{}](results/{})", cell(&m.problem.short), record.file),
                cell(m.problem.text("data").unwrap_or_default()),
                cell(&rung.title),
                cell(from),
                or_dash(times(&m.samples_us)),
                or_dash(accuracies(m)),
                m.test.len().to_string(),
                or_dash(m.steps.map(|steps| steps.to_string())),
                cell(&run.environment.device.name),
                date(run).to_owned(),
            ]);
            told.extend(phases(run, m).map(|phases| format!("Phases of {}, medians: {phases}.", code(&m.rung))));
        }
    }
    let headers = [
        words_head("training"),
        words_head("images"),
        words_head(""),
        words_head("timed from"),
        figures_head("time, mean (range)"),
        figures_head("test accuracy, mean (range)"),
        figures_head("seeds"),
        figures_head("steps"),
        words_head("on"),
        words_head("date"),
    ];
    let table = markdown(&headers, &rows)?;
    let told: String = told.iter().map(|line| format!("\n\n{line}")).collect();
    Some(format!("{}Each from several seeds:\n\n{table}{told}", heading(WHOLE_TRAININGS, "Whole trainings")))
}

#[cfg(test)]
mod tests {
    use super::super::tests::record;
    use super::*;
    use serde_json::{Value, json};

    fn whole(change: impl Fn(&mut Value)) -> Record {
        record(|v| {
            v["experiment"] = "time-to-accuracy".into();
            v["notes"] =
                json!(["What was trained: recipe: small; epochs: 7; steps of each training: 175; order: shuffled."]);
            for problem in v["problems"].as_array_mut().unwrap() {
                let sizes = problem["sizes"].as_array_mut().unwrap();
                sizes.push(json!({ "name": "data", "value": "MNIST" }));
                sizes.push(json!({ "name": "from", "value": "images on the device" }));
            }
            for m in v["measurements"].as_array_mut().unwrap() {
                m["samples_us"] = json!([1_480_000.0, 1_520_000.0]);
                m["samples_total"] = 2.into();
                m["test"] = json!([{ "correct": 9035, "of": 10_000 }, { "correct": 9049, "of": 10_000 }]);
            }
            change(v);
        })
    }

    #[test]
    fn a_row_has_means_and_ranges_over_the_seeds() {
        let text = trainings(&[whole(|_| {})]).unwrap();
        let rows: Vec<&str> = text.lines().filter(|l| l.contains("| One pass |")).collect();
        let expect = "| MNIST | One pass | images on the device | 1.50 s (1.48 s to 1.52 s) | 90.42 % (90.35 to 90.49 %) | 2 | 175 | NVIDIA H200 | ";
        assert!(!rows.is_empty() && rows.iter().all(|row| row.contains(expect)), "{text}");
        assert!(rows[0].starts_with("| [65536") && rows[0].contains("](results/softmax-h200.json) |"), "{}", rows[0]);
        // A training in another framework ends when it reaches the accuracy.
        let theirs = text.lines().find(|l| l.contains("| PyTorch")).unwrap();
        assert!(theirs.contains("| 2 | – | "), "{theirs}");
        assert!(!text.contains("Phases"), "{text}");
    }

    #[test]
    fn phases_are_told_where_a_record_has_them() {
        let text = trainings(&[whole(|v| {
            let problem = v["measurements"][0]["problem"].clone();
            let rung = v["measurements"][0]["rung"].clone();
            let phase = |name: &str, us: f64| {
                json!({ "rung": rung, "problem": problem, "group": "phase", "name": name, "samples_us": [us, us] })
            };
            v["parts"] = json!([phase("import", 5.9e6), phase("data", 53e3)]);
        })])
        .unwrap();
        assert!(text.ends_with(", medians: import 5.90 s, data 53.0 ms."), "{text}");
    }

    #[test]
    fn what_is_missing_is_no_figure() {
        assert_eq!(trainings(&[record(|_| {})]), None, "the record is of something else");
        let text = trainings(&[whole(|v| v["notes"] = json!([]))]).unwrap();
        assert!(!text.contains("| 175 |"), "{text}");
        let failed = trainings(&[whole(|v| {
            for m in v["measurements"].as_array_mut().unwrap() {
                m["check"]["passed"] = false.into();
            }
        })]);
        assert_eq!(failed, None, "a mean below the accuracy is no result");
    }
}
