//! The README's table: the best figure of each experiment, with links to its table, its record and its lessons.

use super::Record;
use super::tables::{
    GUIDE, anchor, cell, code, date, devices, figures_head, is_of_the_guide, markdown, or_dash, rate, title, words_head,
};
use warpbook_charts::{LadderTable, words};
use warpbook_record::{Measurement, Problem};

/// The lessons of each experiment, by the name in its records; the guide's pairs are under [`OF_THE_GUIDE`].
const LESSONS: [(&str, &[&str]); 8] = [
    ("regression", &["10_fused_regression", "11_persistent_regression"]),
    ("matmul", &["20_matmul_ladder", "21_tensor_cores", "22_persistent_product"]),
    ("softmax", &["60_your_own_experiment"]),
    ("training", &["30_mixed_precision", "31_mnist_cnn"]),
    ("loop", &["30_mixed_precision"]),
    ("convolution", &["33_custom_vs_stock"]),
    ("tensor-parallel", &["50_several_gpus"]),
    ("scaling", &["50_several_gpus"]),
];
const OF_THE_GUIDE: [&str; 7] = [
    "01_memory_access",
    "02_shared_memory",
    "40_transfers",
    "41_memory",
    "42_launches_and_fusion",
    "43_inside_the_multiprocessor",
    "44_memory_for_compute",
];

/// Returns the table: a row for each kind of work in an experiment, and one row for the guide. From several records of the
/// same work, it prefers those that compare the work with another framework, and among them the one with the shortest
/// time.
pub(super) fn table(records: &[Record]) -> Option<String> {
    let (pairs, others): (Vec<&Record>, Vec<&Record>) = records.iter().partition(|r| is_of_the_guide(r));
    let mut best: Vec<Best<'_>> = Vec::new();
    for found in others.into_iter().filter_map(Best::new) {
        match best.iter_mut().find(|other| other.is_of_the_work_of(&found)) {
            Some(other) if found.is_shown_before(other) => *other = found,
            Some(_) => {}
            None => best.push(found),
        }
    }
    let rows: Vec<Vec<String>> = best.iter().map(Best::row).chain(guide(&pairs)).collect();
    let headers = [
        words_head("experiment"),
        words_head("work"),
        words_head("our fastest rung"),
        figures_head("time"),
        figures_head("rate or accuracy"),
        words_head("times as fast as"),
        words_head("lessons"),
        words_head("record"),
    ];
    markdown(&headers, &rows)
}

/// Warpbook's fastest rung for a record's main problem.
struct Best<'r> {
    record: &'r Record,
    problem: &'r Problem,
    fastest: &'r Measurement,
    us: f64,
}

impl<'r> Best<'r> {
    fn new(record: &'r Record) -> Option<Self> {
        let run = &record.run;
        let problem = run.main_problem()?;
        let cpu = || run.fastest(problem).and_then(|m| Some((m, m.median_us()?)));
        let (fastest, us) = run.fastest_kernels(problem).or_else(cpu)?;
        Some(Self { record, problem, fastest, us })
    }

    /// Returns true if both records do the same work. In a problem's name, the text after a comma only says how it is
    /// done, as in "cifar10-speedrun 90 %, mirrored views".
    fn is_of_the_work_of(&self, other: &Self) -> bool {
        let work = |best: &Self| best.problem.short.split(',').next().map(str::to_owned);
        self.record.run.experiment == other.record.run.experiment && work(self) == work(other)
    }

    fn is_shown_before(&self, other: &Self) -> bool {
        let order = |best: &Self| (best.framework().is_none(), best.us);
        order(self) < order(other)
    }

    /// Returns the fastest rung of another framework and its time in microseconds.
    fn framework(&self) -> Option<(&'r Measurement, f64)> {
        self.record.run.fastest_of(self.problem, |r| r.framework().is_some())
    }

    fn row(&self) -> Vec<String> {
        let run = &self.record.run;
        vec![
            format!("[{}](data/README.md#{})", cell(&run.title), anchor(self.record)),
            cell(&self.problem.label),
            format!("“{}” ({})", cell(&title(run, self.fastest)), code(&self.fastest.rung)),
            words::time(self.us),
            or_dash(self.accuracy().or_else(|| self.rate())),
            or_dash(self.ratios()),
            or_dash(lessons(LESSONS.iter().find(|(name, _)| *name == run.experiment).map_or(&[], |(_, all)| *all))),
            format!("[{}, {}](data/results/{})", devices(run, self.problem), date(run), self.record.file),
        ]
    }

    fn accuracy(&self) -> Option<String> {
        self.fastest.accuracy().map(|(mean, _)| format!("{:.2} %", 100.0 * mean))
    }

    fn rate(&self) -> Option<String> {
        let table = LadderTable::with(&self.record.run, self.problem, &[rate(&self.record.run)?]);
        let row = table.rows.iter().find(|row| row.rung == self.fastest.rung)?;
        row.cells.first().map(|c| cell(&c.text))
    }

    /// Returns the ratios to the fastest rungs of another framework and of a library, or else to the baseline.
    fn ratios(&self) -> Option<String> {
        let run = &self.record.run;
        let mut others: Vec<_> = self.framework().into_iter().chain(run.fastest_library(self.problem)).collect();
        if others.is_empty() {
            let baseline = run.baseline(self.problem).filter(|m| m.rung != self.fastest.rung);
            others.extend(baseline.and_then(|m| Some((m, m.median_us()?))));
        }
        let ratio =
            |(m, us): &(&Measurement, f64)| format!("{} “{}”", words::times(us / self.us), cell(&title(run, m)));
        (!others.is_empty()).then(|| others.iter().map(ratio).collect::<Vec<_>>().join("; "))
    }
}

/// Returns one row for all pairs of the guide, with the smallest and the largest ratio.
fn guide(pairs: &[&Record]) -> Option<Vec<String>> {
    let ratio = |r: &&Record| {
        let (slow, fast) = r.run.slow_and_fast(r.run.main_problem()?)?;
        Some(slow.median_us()? / fast.median_us()?)
    };
    let ratios: Vec<f64> = pairs.iter().filter_map(ratio).collect();
    let range = |f: fn(f64, f64) -> f64| ratios.iter().copied().reduce(f).map(words::times);
    let dates: Vec<&str> = pairs.iter().map(|r| date(&r.run)).collect();
    let (first, last) = (dates.iter().min()?, dates.iter().max()?);
    let span = if first == last { (*first).to_owned() } else { format!("{first} to {last}") };
    let device = cell(&pairs.first()?.run.environment.device.name);
    Some(vec![
        format!("[Optimisation guide](data/README.md#{GUIDE})"),
        format!("{} pairs of a slow and a fast way", ratios.len()),
        "–".into(),
        "–".into(),
        "–".into(),
        format!("{} to {} the slow way", range(f64::min)?, range(f64::max)?),
        or_dash(lessons(&OF_THE_GUIDE)),
        format!("[{device}, {span}](data/README.md#{GUIDE})"),
    ])
}

/// Returns links to lessons by their numbers: "[20](notebooks/20_matmul_ladder.ipynb)".
fn lessons(names: &[&str]) -> Option<String> {
    let link = |name: &&str| format!("[{}](notebooks/{name}.ipynb)", name.split('_').next().unwrap_or(name));
    (!names.is_empty()).then(|| names.iter().map(link).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::super::records;
    use super::super::tests::record;
    use super::*;
    use crate::workspace::Workspace;

    #[test]
    fn a_row_has_the_fastest_of_ours_next_to_other_frameworks() {
        let text = table(&[record(|_| {})]).unwrap();
        let rows: Vec<&str> = text.lines().skip(2).collect();
        let expect = "| [Row softmax](data/README.md#softmax-h200) | 65536 × 1024 fp32 | “One pass” (`03_online`) | 131 µs | 4098 GB/s | \
                      1.08× “PyTorch” | [60](notebooks/60_your_own_experiment.ipynb) | [NVIDIA H200, 2026-11-21](data/results/softmax-h200.json) |";
        assert_eq!(rows, [expect]);
    }

    #[test]
    fn of_two_records_of_the_same_work_the_faster_one_is_shown() {
        let slower = record(|v| {
            for m in v["measurements"].as_array_mut().unwrap() {
                for us in m["samples_us"].as_array_mut().unwrap() {
                    *us = (us.as_f64().unwrap() * 2.0).into();
                }
            }
        });
        let faster = table(&[record(|_| {})]);
        assert_eq!(table(&[slower, record(|_| {})]), faster);
        let other_views = record(|v| {
            for p in v["problems"].as_array_mut().unwrap() {
                p["short"] = format!("{}, mirrored", p["short"].as_str().unwrap()).into();
            }
        });
        assert_eq!(table(&[record(|_| {}), other_views]), faster);
        let other = record(|v| v["experiment"] = "another".into());
        assert_eq!(table(&[record(|_| {}), other]).unwrap().lines().count(), 4, "another experiment has its own row");
    }

    #[test]
    fn a_record_next_to_another_framework_is_shown_before_a_faster_one_that_is_not() {
        let alone = |v: &mut serde_json::Value| {
            v["rungs"].as_array_mut().unwrap().retain(|r| r["id"] != "pytorch_eager");
            v["measurements"].as_array_mut().unwrap().retain(|m| m["rung"] != "pytorch_eager");
            for m in v["measurements"].as_array_mut().unwrap() {
                for us in m["samples_us"].as_array_mut().unwrap() {
                    *us = (us.as_f64().unwrap() / 2.0).into();
                }
            }
        };
        let compared = table(&[record(|_| {})]);
        assert_eq!(table(&[record(alone), record(|_| {})]), compared);
        assert_eq!(table(&[record(|_| {}), record(alone)]), compared);
    }

    #[test]
    fn without_frameworks_and_libraries_the_baseline_is_next_to_it() {
        let alone = record(|v| {
            v["rungs"].as_array_mut().unwrap().retain(|r| r["id"] != "pytorch_eager");
            v["measurements"].as_array_mut().unwrap().retain(|m| m["rung"] != "pytorch_eager");
        });
        let text = table(&[alone]).unwrap();
        assert!(text.contains("| 32.1× “Naive” |"), "{text}");
    }

    #[test]
    fn the_guide_has_one_row_of_all_its_pairs() {
        let pair = |factor: f64, day: &'static str| {
            record(move |v| {
                v["experiment"] = "guide-x".into();
                v["created"] = format!("2026-11-{day}T00:00:00Z").into();
                v["descriptor"]["compared"] = serde_json::json!(["01_naive", "03_online"]);
                for m in v["measurements"].as_array_mut().unwrap() {
                    if m["rung"] == "01_naive" {
                        m["samples_us"] = serde_json::json!([131.0 * factor]);
                        m["samples_total"] = 1.into();
                    }
                }
            })
        };
        let text = table(&[pair(2.0, "26"), pair(5.0, "27")]).unwrap();
        let rows: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(rows.len(), 1, "{text}");
        assert!(rows[0].contains("| 2 pairs of a slow and a fast way |"), "{text}");
        assert!(rows[0].contains("× the slow way |") && rows[0].contains("2026-11-26 to 2026-11-27"), "{text}");
        assert_eq!(table(&[]), None);
    }

    #[test]
    fn the_figures_of_the_kernels_page_are_those_of_the_records() {
        let w = Workspace::find(false).unwrap();
        let published = records(&w).unwrap();
        let page = std::fs::read_to_string(w.path("kernels/README.md")).unwrap();
        // A sentence may continue on the next line.
        let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
        let has = |text: &str| assert!(page.contains(text), "kernels/README.md lacks `{text}`");
        let named = |name: &str| {
            let file = format!("{name}-h200.json");
            published.iter().find(|r| r.file == file).unwrap()
        };
        let us = |record: &Record, rung: &str| {
            let run = &record.run;
            run.measurement(rung, run.main_problem().unwrap()).and_then(Measurement::median_us).unwrap()
        };
        let ladders =
            [("regression", "01_unfused"), ("matmul", "01_naive"), ("training", "01_direct"), ("softmax", "01_naive")];
        for (name, slowest) in ladders {
            let record = named(name);
            let fastest = Best::new(record).unwrap();
            has(&format!("| {} next to {} (", words::time(fastest.us), words::time(us(record, slowest))));
        }
        let gains = [
            ("regression", "01_unfused", "02_fused", "made the regression N times as fast."),
            ("regression", "02_fused", "05_persistent", "The regression became N times as fast from 02 to 05."),
            ("training", "07_fused_bf16", "09_overlap_bf16", "a training step became N times as fast from 07 to 09"),
            ("training", "11_few_channels_bf16", "12_dependent_launch_bf16", "and N times from 11 to 12."),
            ("training", "04_tf32", "05_nhwc", "(05) made a training step N times as fast"),
            ("matmul", "08_double_buffered", "14_overlapped_store", "made the matrix product N times as fast from 08"),
            ("matmul", "09_wmma", "10_mma_swizzled", "(10) made a product N times as fast."),
        ];
        for (name, from, to, sentence) in gains {
            let record = named(name);
            let ratio = words::times(us(record, from) / us(record, to));
            has(&sentence.replace(" N ", &format!(" {} ", ratio.trim_end_matches('×'))));
        }
        let pairs: Vec<&Record> = published.iter().filter(|r| is_of_the_guide(r)).collect();
        let row = guide(&pairs).unwrap();
        let (count, ratios) = (row[1].split(' ').next().unwrap(), row[5].replace('×', ""));
        has(&format!("| {} times as fast, over {count} pairs |", ratios.trim_end_matches(" the slow way")));
    }
}
