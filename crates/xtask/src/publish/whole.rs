//! Tables of trainings: from every record whose samples are trainings to an accuracy, and from every record of trainings
//! that were logged step by step.

use super::Record;
use super::tables::{
    LOGGED_TRAININGS, WHOLE_TRAININGS, cell, code, date, figures_head, heading, markdown, or_dash, words_head,
};
use warpbook_charts::words;
use warpbook_record::{Course, Measurement, PartGroup, Run, Runner, TrainLog, stats};

/// Returns true if a record's samples are whole trainings: only the problems of such records say from which moment on a
/// training is timed.
fn is_whole(run: &Run) -> bool {
    run.measurements.iter().any(|m| m.problem.text("from").is_some())
}

/// Formats times in microseconds: "961 ms (871 ms to 1.02 s)".
fn times(samples_us: &[f64]) -> Option<String> {
    let (mean, _) = stats::moments(samples_us)?;
    Some(words::time(mean) + &range(samples_us, words::time, ""))
}

/// Formats accuracies from 0 to 1: "90.49 % (90.19 to 90.67 %)".
fn accuracies(all: &[f64]) -> Option<String> {
    let (mean, _) = stats::moments(all)?;
    let percent = |share: f64| format!("{:.2}", 100.0 * share);
    Some(format!("{} %{}", percent(mean), range(all, percent, " %")))
}

/// Formats the smallest and the largest value, with a unit at the end: " (871 ms to 1.02 s)"; empty for a single value.
fn range(values: &[f64], format: impl Fn(f64) -> String, unit: &str) -> String {
    let [least, most] = extremes(values).map(format);
    if values.len() > 1 { format!(" ({least} to {most}{unit})") } else { String::new() }
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
            let tested: Option<Vec<f64>> = m.test.iter().map(|right| right.accuracy()).collect();
            rows.push(vec![
                format!("[{}](results/{})", cell(&m.problem.short), record.file),
                cell(m.problem.text("data").unwrap_or_default()),
                cell(&rung.title),
                cell(from),
                or_dash(times(&m.samples_us)),
                or_dash(tested.and_then(|all| accuracies(&all))),
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
    Some(format!(
        "{}Each row summarises several trainings, one per seed:\n\n{table}{told}",
        heading(WHOLE_TRAININGS, "Whole trainings")
    ))
}

/// Returns a table with one row for each rung and batch of the logged trainings in every record, with means over the seeds;
/// `None` if there is no such record. The accuracy is that of the last epoch.
pub(super) fn logged(records: &[Record]) -> Option<String> {
    let (mut rows, mut planned_within) = (Vec::new(), false);
    for Record { file, run, .. } in records {
        let mut kinds: Vec<(_, Vec<(&TrainLog, &Course)>)> = Vec::new();
        for log in &run.train_logs {
            let Some(course) = log.course.as_deref().filter(|c| c.is_finished()) else { continue };
            let kind = (log.rung.as_str(), log.problem.count("batch"), log.problem.count("steps"));
            match kinds.iter_mut().find(|(known, _)| *known == kind) {
                Some((_, same)) => same.push((log, course)),
                None => kinds.push((kind, vec![(log, course)])),
            }
        }
        for ((rung, batch, _), same) in kinds {
            let (Some((log, course)), Some(rung)) = (same.first(), run.rung(rung)) else { continue };
            let last: Vec<f64> = same.iter().filter_map(|(_, course)| course.epochs.last()?.test?.accuracy()).collect();
            let total_us: Vec<f64> = same.iter().map(|(_, course)| 1e6 * course.total_s).collect();
            let is_kernels = matches!(rung.runner, Runner::Kernels { .. });
            planned_within |= is_kernels && same.iter().any(|(_, course)| course.planning_s.is_none());
            let time = stats::median(&total_us).map(|us| words::time(us) + &range(&total_us, words::time, ""));
            rows.push(vec![
                format!("[{}](results/{file})", cell(log.problem.text("network").unwrap_or(&log.problem.short))),
                cell(&rung.title),
                or_dash(batch.map(|batch| batch.to_string())),
                course.epochs.len().to_string(),
                or_dash(time),
                or_dash(accuracies(&last)),
                same.len().to_string(),
                cell(&run.environment.device.name),
                date(run).to_owned(),
            ]);
        }
    }
    let headers = [
        words_head("recipe"),
        words_head(""),
        figures_head("batch"),
        figures_head("epochs"),
        figures_head("time with evaluations, median (range)"),
        figures_head("test accuracy at the end, mean (range)"),
        figures_head("seeds"),
        words_head("on"),
        words_head("date"),
    ];
    let table = markdown(&headers, &rows)?;
    // Since November 2026 kernels are compiled before a training's clock starts.
    let planned = match planned_within {
        true => "The first training of a kind also compiled its kernels, hence the longest times. ",
        false => "",
    };
    Some(format!(
        "{}The loss was logged every few steps, and the test images were classified after each epoch. {planned}PyTorch's code is eager, as most tutorials write it, so its times are no benchmark of \
         PyTorch. CIFAR-10's images are recompressed as JPEG q75.\n\n{table}",
        heading(LOGGED_TRAININGS, "Trainings, step by step")
    ))
}

#[cfg(test)]
mod tests {
    use super::super::tests::record;
    use super::*;
    use serde_json::{Value, json};

    fn whole(change: impl Fn(&mut Value)) -> Record {
        record(|v| {
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
    fn logged_trainings_have_the_mean_of_their_seeds() {
        let log = |batch: u64, correct: u64, ended: &str| {
            json!({
                "rung": "03_online", "problem": format!("batch={batch} seed={correct}"), "train_loss": 1.0, "test_loss": 1.0,
                "course": {
                    "total_s": correct as f64 / 1e4, "ended": ended,
                    "epochs": [{ "epoch": 1, "step": 5, "seconds": 1.0, "train_loss": 1.0, "test_loss": 1.0, "test": { "correct": correct, "of": 10_000 } }],
                },
            })
        };
        let text = logged(&[record(|v| {
            let problem = v["problems"][0].clone();
            for (batch, correct) in [(128, 9000), (128, 9100), (128, 1), (256, 5000)] {
                let mut problem = problem.clone();
                problem["id"] = format!("batch={batch} seed={correct}").into();
                problem["sizes"] =
                    json!([{ "name": "network", "value": "mnist" }, { "name": "batch", "value": batch }]);
                v["problems"].as_array_mut().unwrap().push(problem);
            }
            v["train_logs"] = json!([
                log(128, 9000, "finished"),
                log(256, 5000, "finished"),
                log(128, 1, "stopped after step 5"),
                log(128, 9100, "finished")
            ]);
        })])
        .unwrap();
        let rows: Vec<&str> =
            text.lines().filter(|line| line.starts_with("| [mnist](results/softmax-h200.json) | One pass |")).collect();
        assert_eq!(rows.len(), 2, "{text}");
        assert!(
            rows[0].contains("| 128 | 1 | 905 ms (900 ms to 910 ms) | 90.50 % (90.00 to 91.00 %) | 2 |"),
            "{}",
            rows[0]
        );
        assert!(rows[1].contains("| 256 | 1 | 500 ms | 50.00 % | 1 |"), "{}", rows[1]);
        assert!(text.contains("also compiled its kernels"), "{text}");
        assert_eq!(logged(&[record(|_| {})]), None, "the record has no logs");
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
